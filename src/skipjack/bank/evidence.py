"""The evidence of an entry, with a name and a type for each fact. No I/O.

Entries may come from anyone. Facts that were not checked when a line was read
(`skipjack.bank.entry`) are returned in their type here, or as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

REPLACED = "replaced"
"""The field of the evidence about the bank's entry that this one replaced."""
MASKED = "masked"
"""The field of the evidence about features of the device that kernels did not use."""
PINNED = "pinned"
"""The field of the evidence with the settings that the user pinned, as texts."""
BASELINE = "baseline"
"""The field of the evidence of entries whose default depends only on problem and device."""


@dataclass(frozen=True, slots=True)
class KnownGain:
    """A gain with its interval; a bound is None if there were too few pairs."""

    ratio: float | None
    low: float | None
    high: float | None
    over: str = ""
    """What it is a gain over, if the evidence names it."""

    @classmethod
    def read(cls, told: object) -> KnownGain | None:
        """The gain in an entry or a job's result; None if the value is not a gain."""
        if not isinstance(told, Mapping) or any(
            told.get(name) is not None and not _is_number(told.get(name)) for name in _BOUNDS
        ):
            return None
        ratio, low, high = (told.get(name) for name in _BOUNDS)
        return cls(ratio, low, high, _text(told.get("name")))

    def record(self) -> dict[str, float | None]:
        """The numbers for JSON."""
        return {"ratio": self.ratio, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Replaced:
    """The entry that was replaced; invalid values are left at their defaults."""

    entry: str = ""
    """Its digest: see `skipjack.bank.strength.digest`."""
    solver: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    met: str = ""
    """Why it was replaced: a `skipjack.bank.ReplacementReason`."""
    grade: float | None = None
    score: float | None = None
    generation: float | None = None


class Evidence(Mapping[str, Any]):
    """An entry's evidence: the mapping of its line, with properties for its facts."""

    __slots__ = ("_told",)

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told: Mapping[str, Any] = told._told if isinstance(told, Evidence) else dict(told)

    def __getitem__(self, name: str) -> Any:
        return self._told[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    def __repr__(self) -> str:
        return f"Evidence({self._told!r})"

    @property
    def samples(self) -> int | None:
        """The number of samples that were kept."""
        return self._count("samples")

    @property
    def set_aside(self) -> int | None:
        """The number of samples that were left out because the machine was disturbed."""
        return self._count("set_aside")

    @property
    def spread(self) -> float | None:
        """The spread of the samples as a share of the time."""
        return number_or_none(self._told.get("spread"))

    @property
    def alpha(self) -> float | None:
        """The error probability of the test."""
        return number_or_none(self._told.get("alpha"))

    @property
    def min_effect(self) -> float | None:
        """The smallest gain that the test accepted."""
        return number_or_none(self._told.get("min_effect"))

    @property
    def study(self) -> str:
        """The id of the search that led to it."""
        return _text(self._told.get("study"))

    @property
    def model(self) -> str:
        """The model of the device that it was timed on; empty in old entries."""
        return _text(self._told.get("model"))

    @property
    def vector_bytes(self) -> int:
        """The width of the device's vectors; 0 in old entries."""
        width = self._told.get("vector_bytes")
        return width if type(width) is int else 0

    @property
    def pinned(self) -> Mapping[str, str]:
        """The settings that were pinned; empty if all were searched."""
        told = self._told.get(PINNED)
        return {str(k): str(v) for k, v in told.items()} if isinstance(told, Mapping) else {}

    @property
    def masked(self) -> str:
        """Features of the device that kernels did not use; empty if they used all."""
        return _text(self._told.get(MASKED))

    @property
    def driver(self) -> str:
        """Name and version of the driver of the GPU that it was timed on; empty for a CPU."""
        return _text(self._told.get("driver"))

    @property
    def ties(self) -> Sequence[Mapping[str, Any] | str]:
        """Configs of the same solver that are ties; of a ranking, solvers."""
        ties: Sequence[Mapping[str, Any] | str] = self._list("ties")
        return ties

    @property
    def ranking(self) -> Sequence[Mapping[str, Any]]:
        """The solvers of a find, fastest first and those that failed last."""
        ranking: Sequence[Mapping[str, Any]] = self._list("ranking")
        return ranking

    @property
    def baseline(self) -> KnownGain | None:
        """The main gain and what it is over; None in old entries and in rankings."""
        return KnownGain.read(self._told.get(BASELINE))

    @property
    def as_called(self) -> KnownGain | None:
        """The gain over a library, both called from Python; None if it was not measured."""
        return KnownGain.read(self._told.get("as_called"))

    @property
    def replaced(self) -> Replaced | None:
        """The entry that it replaced; None if there was none."""
        told = self._told.get(REPLACED)
        if not told:
            return None
        if not isinstance(told, Mapping):
            return Replaced()
        config = told.get("config")
        return Replaced(
            _text(told.get("entry")),
            _text(told.get("solver")),
            config if isinstance(config, Mapping) else {},
            _text(told.get("met")),
            number_or_none(told.get("grade")),
            number_or_none(told.get("score")),
            number_or_none(told.get("generation")),
        )

    def _count(self, name: str) -> int | None:
        number = number_or_none(self._told.get(name))
        return None if number is None else int(number)

    def _list(self, name: str) -> Sequence[Any]:
        found = self._told.get(name)
        return found if isinstance(found, list | tuple) else ()


_BOUNDS = ("ratio", "low", "high")


def number_or_none(value: object) -> float | None:
    """A finite number; None for anything else."""
    if not _is_number(value):
        return None
    try:
        return float(value) if isfinite(value) else None  # type: ignore[arg-type]
    except OverflowError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
