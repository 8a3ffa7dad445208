"""A bank entry, its canonical line of JSON, and the rule by which entries merge. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Value

FORMAT = 1
"""The newest format of a line that this version reads and writes."""

PERF, FIND = "perf", "find"
"""Kinds of entries: the best config; the solvers, ranked."""

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
    """Counts of samples, alpha, min_effect, protocol, study, ties."""
    created: str = ""
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
        if not isinstance(record, dict):
            raise ValueError("it is not a JSON object")
        found = record.get("format")
        if type(found) is not int or found < 1:
            raise ValueError("it has no format number")
        if found > FORMAT:
            raise NewerEntryError(f"it has format {found}, this Skipjack knows {FORMAT}")
        if record.keys() != _TYPES.keys():
            odd = ", ".join(sorted(record.keys() ^ _TYPES.keys()))
            raise ValueError(f"these fields are missing or unknown: {odd}")
        for name, kinds in _TYPES.items():
            if not isinstance(record[name], kinds):
                raise ValueError(f"field {name} has a value of the wrong type")
        return cls(**record)

    @classmethod
    def from_line(cls, line: str) -> BankEntry:
        """The entry of a line of JSON; `ValueError` says what is wrong with it."""
        return cls.from_record(_DECODER.decode(line))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON knows")


# Made once: json.loads makes a new one for each line that is read with an option.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


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


def newer(first: BankEntry, second: BankEntry) -> BankEntry:
    """The entry that a union keeps: the later, and of two made at once the greater line.

    A total order, so that a union does not depend on the order in which it is made.
    """
    if first.created != second.created:
        return max(first, second, key=lambda entry: entry.created)
    return max(first, second, key=lambda entry: entry.line)


def merge_entries(entries: Iterable[BankEntry]) -> dict[Key, BankEntry]:
    """One entry for each key, sorted by key."""
    kept: dict[Key, BankEntry] = {}
    for entry in entries:
        have = kept.get(entry.key)
        kept[entry.key] = entry if have is None else newer(have, entry)
    return dict(sorted(kept.items()))


def to_lines(entries: Mapping[Key, BankEntry]) -> bytes:
    """The canonical bytes of a bank."""
    return "".join(f"{entries[key].line}\n" for key in sorted(entries)).encode("ascii")
