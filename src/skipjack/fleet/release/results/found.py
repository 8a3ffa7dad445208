"""A problem with its solvers ranked, wherever that was found, and its line of JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Value
from skipjack.core.times import possible_time
from skipjack.interop.miopen.json_format import ENTRIES, FIND, KEY, record_of


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """How fast a solver is with the best config that is known of it."""

    solver: str
    time_ns: float
    """As it was written down: see `possible`."""
    workspace_bytes: int = 0
    algorithm: str = ""
    """As MIOpen calls it, ``miopenConvolutionFwdAlgoDirect``; empty for what is no convolution."""
    config: Mapping[str, Value] = field(default_factory=dict)
    spread: float | None = None
    samples: int = 0
    version: int | None = None
    """Of the solver; None where nobody wrote it down."""

    @property
    def possible(self) -> bool:
        """Whether a kernel can take that long."""
        return possible_time(self.time_ns)

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
        return {name: getattr(self, name) for name in RankedEntry.__slots__} | {
            "config": dict(self.config)
        }


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """The solvers of a problem on a device, fastest first."""

    problem: str
    """Its key; that of a find-db where it cannot be computed here."""
    find_key: str | None
    """As in a find-db of MIOpen; None for what such files do not hold."""
    device: str
    """As ``gfx908/120``; empty where a file does not say it."""
    ranking: tuple[RankedEntry, ...]
    toolchain: str = ""
    updated: str = ""
    miopen: tuple[str, ...] = ()
    """Lines of a find-db that MIOpen itself wrote, as they were."""

    @property
    def possible(self) -> tuple[RankedEntry, ...]:
        """The ranking without times that cannot be."""
        return tuple(entry for entry in self.ranking if entry.possible)

    def record(self) -> dict[str, Any]:
        """One record for machines."""
        return record_of(
            FIND,
            (self.problem, self.find_key, self.device),
            [entry.to_json() for entry in self.ranking],
            toolchain=self.toolchain,
            updated=self.updated,
            miopen=self.miopen,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FoundProblem:
        """The problem of a line's JSON; `ValueError` says what is wrong with it."""
        if record.get("kind") != FIND:
            raise ValueError(f"it is of kind {record.get('kind')!r}, not {FIND}")
        try:
            ranking = tuple(RankedEntry(**entry) for entry in record[ENTRIES[FIND]])
            key = record[KEY[FIND]]
            return cls(
                str(record["problem"]),
                None if key is None else str(key),
                str(record["device"]),
                ranked(_checked(entry) for entry in ranking),
                str(record["toolchain"]),
                str(record["updated"]),
                tuple(map(str, record["miopen"])),
            )
        except KeyError as error:
            raise ValueError(f"it has no field {error}") from None
        except TypeError as error:
            raise ValueError(f"a field is of the wrong type: {error}") from None


def _checked(entry: RankedEntry) -> RankedEntry:
    numbers = (entry.time_ns, entry.workspace_bytes)
    if not all(isinstance(one, int | float) for one in numbers):
        raise ValueError(f"the time or workspace of {entry.solver} is no number")
    return entry


def ranked(entries: Iterable[RankedEntry]) -> tuple[RankedEntry, ...]:
    """By time, those that take equally long by name; what is no number comes last."""
    return tuple(sorted(entries, key=_rank))


def _rank(entry: RankedEntry) -> tuple[bool, float, str]:
    number = math.isfinite(entry.time_ns)
    return not number, entry.time_ns if number else 0.0, entry.solver
