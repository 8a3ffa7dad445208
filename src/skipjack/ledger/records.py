"""The records that go into a ledger and come out of it, independent of how they are stored.

A record's empty `created` is filled in by the ledger's clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from skipjack.core import Candidate, Config, Metric, Status, Trial
from skipjack.storage import names_shortage

# Metrics: samples under a name, with a unit.

TIME = "time_ns"
"""The name of a kernel's time, as in objectives."""

NOT_FINITE = ("inf", "-inf", "nan")
"""Numbers that JSON does not have; they are written as text."""


class MetricSamples(NamedTuple):
    """The samples of one metric."""

    unit: str
    """``ns``, ``s``, ``1`` for a count; empty if it is unknown, or if the value is a word."""
    values: tuple[Metric, ...]
    """The samples in the order in which they were taken; perhaps none."""


_UNITS = {
    "ns": "ns",
    "us": "us",
    "ms": "ms",
    "s": "s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "second": "s",
    "bytes": "B",
    "percent": "%",
    "watts": "W",
    "joules": "J",
    "celsius": "C",
    "hz": "Hz",
    "mhz": "MHz",
    "ghz": "GHz",
    "count": "1",
    "calls": "1",
    "qps": "1/s",
    "fps": "1/s",
}


def unit_of(name: str) -> str:
    """The unit at the end of a metric's name, as in ``latency_ns``; empty if there is none.

    A rate, as ``samples_per_second``, has a unit such as ``1/s``.
    """
    before, _, last = name.lower().rpartition("_")
    unit = _UNITS.get(last, "")
    return f"1/{unit}" if unit and before.endswith("_per") else unit


def single(metrics: Mapping[str, Metric]) -> dict[str, MetricSamples]:
    """Samples of metrics with one value each, in the units of their names."""
    return {
        name: MetricSamples("" if isinstance(value, str) else unit_of(name), (value,))
        for name, value in metrics.items()
    }


# Studies, builds, measurements, marks and decisions.


@dataclass(frozen=True, slots=True)
class CandidateKey:
    """A candidate as texts, with the solver's version, on which the meaning of a config depends."""

    problem: str
    solver: str
    solver_version: int
    config: str

    @classmethod
    def of(cls, candidate: Candidate, solver_version: int) -> CandidateKey:
        """The key of a candidate."""
        return cls(candidate.problem.key, candidate.solver, solver_version, candidate.config.key)


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study as it was started, and its progress since it last started over."""

    id: str
    problem: str
    solver: str
    solver_version: int
    device: str
    searcher: str
    seed: int
    space: str
    objective: str
    protocol: str
    created: str
    epoch: int
    """How often it was started over."""
    asks: int
    tells: int


class RelatedStudy(NamedTuple):
    """A study of a solver, of any problem of an operation and on any device."""

    id: str
    problem: str
    device: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a study's log; a tell has a trial."""

    seq: int
    kind: Literal["ask", "tell"]
    config: Config
    trial: Trial | None
    created: str


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The result of compiling one source. It has an artifact's digest exactly if status is ok."""

    source_digest: str
    compat: str
    """The device's compat key."""
    status: Status
    artifact_digest: str | None = None
    symbol: str = ""
    abi: str = ""
    reason: str = ""
    seconds: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    compiler: str = ""
    target: str = ""
    created: str = ""
    machine: str = ""
    """The machine that built it; empty in records of earlier versions."""

    @property
    def lasting(self) -> bool:
        """Whether it failed, and would fail again wherever the same compiler builds the source.

        Earlier versions recorded a lack of memory or disk space as an error of the compiler.
        """
        return self.status in LASTING and not names_shortage(self.reason)


LASTING = (Status.BUILD_ERROR, Status.INFEASIBLE)
"""Statuses of builds that the source and the compiler decide, unlike timeouts, crashes of the
compiler, and lack of memory or disk space."""


@dataclass(frozen=True, slots=True)
class MeasurementRecord:
    """One block of samples of one candidate, or one run of it that failed."""

    candidate: CandidateKey
    source_digest: str | None
    """None for a vendor's library, which is not built."""
    device_instance: str
    device_class: str
    protocol: str
    """The timing protocol's key."""
    session: str
    """Blocks of the same session are comparable."""
    block: int
    metrics: Mapping[str, MetricSamples]
    """The samples by metric. A kernel's time is `time_ns`."""
    sentinel_ns: float | None = None
    disturbed: int = 0
    """The number of disturbed samples that were left out."""
    status: Status = Status.OK
    reason: str = ""
    """One sentence if it failed."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts about a run, as JSON values."""
    created: str = ""
    seq: int = 0
    """Its place in the order of measurements and marks; the ledger fills it in."""

    @property
    def times_ns(self) -> tuple[float, ...]:
        """The samples of a kernel's time."""
        times = self.metrics.get(TIME)
        return tuple(map(float, times.values)) if times else ()


class MarkKind(StrEnum):
    """What a mark means to later readers of the ledger."""

    FORGET = "forget"
    """Earlier runs are not used anymore: all of them (`everything`) or those that failed
    (`failures`)."""
    SEARCH_ENDED = "search_ended"
    """A search was completed and need not be run again; the scope describes it."""


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A note for later runs about earlier measurements."""

    kind: MarkKind
    scope: str
    problem: str
    solver: str
    solver_version: int
    protocol: str | None
    """None: for all protocols."""
    device_instance: str
    device_class: str
    session: str
    created: str = ""
    seq: int = 0
    """Its place in the order of measurements and marks; the ledger fills it in."""


OUTCOME = "outcome"
"""The field of a decision's evidence with the outcome of the run."""


_WORDS = {"kept": "entry stays", "reserved": "default stays", "vendor": "library"}
"""The words that tables show for stored outcomes, if they differ."""


def decision_word(stored: str) -> str:
    """The word that tables show for an outcome of the ledger, a job or JSON."""
    return _WORDS.get(stored, stored)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The decision of a study. The record of a banked decision is a bank entry."""

    study: str
    problem: str
    device: str
    solver: str
    config: Config
    status: str
    """The bank is made from decisions that are ``banked`` or ``found``."""
    record: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    @property
    def outcome(self) -> str:
        """The outcome of the run, which tables show as its `decision_word`.

        The default or a library may enter the bank, too: then the status is ``banked`` and the
        outcome ``reserved`` or ``vendor``. Records of earlier versions only have the status.
        """
        evidence = self.record.get("evidence")
        found = evidence.get(OUTCOME) if isinstance(evidence, Mapping) else None
        return found if isinstance(found, str) else self.status


class BankedConfig(NamedTuple):
    """A config that was banked for a problem."""

    problem: str
    solver: str
    config: Config
    record: str = ""
    """The decision's record as JSON, if the problem has more than one."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of rows of a ledger by kind."""

    devices: int
    studies: int
    tells: int
    candidates: int
    builds: int
    measurements: int
    marks: int
    verdicts: int


# The order of measurements and marks: a number that grows, whatever the clock does.
#
# It is the time at which a row was written, in microseconds since 1970, or one more than the
# largest number of the ledger, whichever is more. So rows of one ledger are in the order in which
# they were written, even if a clock was set back; rows of merged ledgers are in the order of their
# clocks.

LARGEST = 1 << 53
"""The largest version, epoch or place in an order; counting on from it stays within 64 bits."""

_KNOWN = (
    f"SELECT (SELECT max(seq) FROM measurements WHERE seq < {LARGEST}), "
    f"(SELECT max(seq) FROM marks WHERE seq < {LARGEST})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number_of(created: str) -> int:
    """The number of a time in the form of `created`; 0 if it is not a time."""
    try:
        since = datetime.fromisoformat(created) - _EPOCH
    except (ValueError, TypeError):
        return 0
    return min(max(0, since // timedelta(microseconds=1)), LARGEST - 1)


def next_number(connection: sqlite3.Connection, now: str) -> int:
    """The number of a measurement or mark that is written now."""
    known = connection.execute(_KNOWN).fetchone()
    return max(number_of(now), 1 + max(number or 0 for number in known))
