"""A bank entry and its canonical line of JSON. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Value
from skipjack.reading import described, parse_json, quoted

FORMAT = 1
"""The newest format of a line that this version reads and writes."""

PERF, FIND = "perf", "find"
"""Kinds of entries: the best config; the solvers, ranked."""

LONGEST_CHAIN = 10**6
"""Entries that replaced each other in a row are fewer, each having been timed."""
LARGEST_SCORE = 1e12
"""Scores of evidence that was inherited are smaller: no kernel is so many times faster."""

Key = tuple[str, str, str]


class NewerEntryError(ValueError):
    """A line of a format that is not known yet."""


@dataclass(frozen=True, slots=True)
class BankEntry:
    """The best known config of a problem on a class of devices, and why it is believed.

    An entry of kind ``find`` names the fastest solver, a library perhaps, and holds all that were
    ranked in ``evidence["ranking"]``, fastest first and those that failed last.
    """

    problem: str
    device: str
    """The device's class key."""
    device_name: str
    solver: str
    solver_version: int
    config: Mapping[str, Value]
    time_ns: float
    default_ns: float
    vendor_ns: float | None
    vendor: str
    """Name of the vendor's solver, empty if there was none to compare with."""
    speedup: Mapping[str, Mapping[str, float]]
    """Against ``default`` and ``vendor``, each ``{ratio, low, high}``."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Counts of samples, alpha, min_effect, protocol, study, ties; the entry that it replaced."""
    created: str = ""
    """For people, and the last resort among equals: clocks may be wrong."""
    kind: str = PERF
    format: int = FORMAT

    def __post_init__(self) -> None:
        # A `Config` is welcome; JSON wants a plain dict, and entries compare with what was read.
        object.__setattr__(self, "config", dict(self.config))

    @property
    def key(self) -> Key:
        """What a bank holds one entry for."""
        return self.problem, self.device, self.kind

    @property
    def line(self) -> str:
        """The canonical text: compact JSON, keys sorted, ASCII."""
        return json.dumps(self.record(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def record(self) -> dict[str, Any]:
        """The entry as plain JSON values, as kept in a verdict."""
        return {name: getattr(self, name) for name in _TYPES}

    @classmethod
    def from_record(cls, record: object) -> BankEntry:
        """The entry of a JSON object; `ValueError` says what is wrong with it."""
        entry = cls._checked(record)
        try:
            parse_json(entry.line)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        return entry

    @classmethod
    def from_line(cls, line: str | bytes) -> BankEntry:
        """The entry of a line of JSON; `ValueError` says what is wrong with it."""
        return cls._checked(parse_json(line))

    @classmethod
    def _checked(cls, record: object) -> BankEntry:
        if not isinstance(record, dict):
            raise ValueError("it is not a JSON object")
        found = record.get("format")
        if type(found) is not int or found < 1:
            raise ValueError("it has no format number")
        if found > FORMAT:
            raise NewerEntryError(f"it has format {found}, this Skipjack knows {FORMAT}")
        if record.keys() != _TYPES.keys():
            odd = ", ".join(map(quoted, sorted(record.keys() ^ _TYPES.keys())))
            raise ValueError(f"these fields are missing or unknown: {odd}")
        for name, kinds in _TYPES.items():
            if not isinstance(record[name], kinds) or isinstance(record[name], bool):
                raise ValueError(f"field {name} has a value of the wrong type")
        for name in _TIMES:
            if (record[name] or 0) < 0:
                raise ValueError(f"field {name} is negative")
        if not all(map(_is_gain, record["speedup"].values())):
            raise ValueError("field speedup has a value that is not a ratio with its interval")
        evidence = record["evidence"]
        for name, is_right in (("ranking", _is_place), ("ties", _is_tie)):
            rows = evidence.get(name, [])
            if not isinstance(rows, list) or not all(map(is_right, rows)):
                raise ValueError(f"field evidence.{name} is not a list as it should be")
        for name, is_right in (("baseline", _is_baseline), ("as_called", _is_gain)):
            if evidence.get(name) is not None and not is_right(evidence[name]):
                raise ValueError(f"field evidence.{name} is not a ratio with its interval")
        _check_history(evidence.get("replaced"))
        return cls(**record)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "problem": str,
    "device": str,
    "device_name": str,
    "solver": str,
    "solver_version": int,
    "config": dict,
    "time_ns": (int, float),
    "default_ns": (int, float),
    "vendor_ns": (int, float, type(None)),
    "vendor": str,
    "speedup": dict,
    "evidence": dict,
    "created": str,
    "kind": str,
    "format": int,
}
_TIMES = ("time_ns", "default_ns", "vendor_ns")


def _is_number(value: object) -> bool:
    """A number, or None for what is not known."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_gain(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in value and _is_number(value[name]) for name in ("ratio", "low", "high")
    )


def _is_baseline(value: object) -> bool:
    """A gain, and the name of what it is over."""
    return isinstance(value, dict) and isinstance(value.get("name"), str) and _is_gain(value)


def _check_history(replaced: object) -> None:
    """Refuse what no row of tunings leads to: such an entry would stay whatever was measured."""
    for name, most in (("generation", LONGEST_CHAIN - 1), ("score", LARGEST_SCORE)):
        value = replaced.get(name) if isinstance(replaced, dict) else None
        if isinstance(value, int | float) and value > most:
            raise ValueError(
                f"field evidence.replaced.{name} is {described(value)}, more than the {most:,.0f} "
                "that can be believed"
            )


def _is_tie(value: object) -> bool:
    """A config of the same solver, or the name of another solver."""
    return isinstance(value, dict | str)


def _is_place(value: object) -> bool:
    """How one solver did in a find."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("solver"), str)
        and isinstance(value.get("config", {}), dict)
        and all(_is_number(value.get(name)) for name in ("time_ns", "spread", "workspace_bytes"))
        and (value.get("behind") is None or _is_gain(value["behind"]))
    )


def to_lines(entries: Mapping[Key, BankEntry]) -> bytes:
    """The canonical bytes of a bank."""
    return "".join(f"{entries[key].line}\n" for key in sorted(entries)).encode("ascii")
