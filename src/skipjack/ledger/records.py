"""What goes into a ledger and comes out of it. How it is stored is for `rows` and `ledger` to know.

A record's `created` is filled in by the ledger's clock when it is left empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from skipjack.core.config import Config
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.ledger.metrics import TIME, MetricSamples


@dataclass(frozen=True, slots=True)
class CandidateKey:
    """A candidate by its texts, with the solver's version: what its config means depends on it."""

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
    """A study as it was started, and how far it has come since it last started over."""

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


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of a study's log; `trial` is there if it is a tell."""

    seq: int
    kind: Literal["ask", "tell"]
    config: Config
    trial: Trial | None
    created: str


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """What came of compiling one source. An artifact's digest is there exactly if status is ok."""

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


@dataclass(frozen=True, slots=True)
class MeasurementRecord:
    """One block of samples of one candidate, or one run of it that failed."""

    candidate: CandidateKey
    source_digest: str | None
    """None for a vendor library, which is not built."""
    device_instance: str
    device_class: str
    protocol: str
    """The timing protocol's key."""
    session: str
    """Blocks of one session are comparable with each other."""
    block: int
    metrics: Mapping[str, MetricSamples]
    """What was measured, by name. A kernel's time is `time_ns`."""
    sentinel_ns: float | None = None
    disturbed: int = 0
    """How many samples were set aside."""
    status: Status = Status.OK
    reason: str = ""
    """One sentence, where it failed."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be known of a run, as JSON values."""
    created: str = ""
    seq: int = 0
    """Its place in the order of measurements and marks; the ledger fills it in."""

    @property
    def times_ns(self) -> tuple[float, ...]:
        """The samples of a kernel's time."""
        times = self.metrics.get(TIME)
        return tuple(map(float, times.values)) if times else ()


class MarkKind(StrEnum):
    """What a mark says to those who read the ledger later."""

    FORGET = "forget"
    """Runs before it are not used any more: all of them (`everything`) or those that failed
    (`failures`)."""
    SEARCH_ENDED = "search_ended"
    """A search came to its end and need not be run again; the scope describes it."""


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A note for later runs about earlier measurements; not itself a measurement."""

    kind: MarkKind
    scope: str
    problem: str
    solver: str
    solver_version: int
    protocol: str | None
    """None: for all of them."""
    device_instance: str
    device_class: str
    session: str
    created: str = ""
    seq: int = 0
    """Its place in the order of measurements and marks; the ledger fills it in."""


OUTCOME = "outcome"
"""The field of a verdict's evidence that says how the run ended."""


_WORDS = {"kept": "entry stays", "reserved": "default stays", "vendor": "library"}
"""How people read verdicts whose stored value is another word."""


def verdict_word(stored: str) -> str:
    """What tables call a verdict that the ledger, a job or JSON has under this value."""
    return _WORDS.get(stored, stored)


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """What a study concluded. The record of a banked verdict is a bank entry."""

    study: str
    problem: str
    device: str
    solver: str
    config: Config
    status: str
    """``banked`` and ``found`` are what the bank is projected from; others are for the reader."""
    record: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    @property
    def outcome(self) -> str:
        """How the run ended; its table has the `verdict_word` of it.

        The default or a library may enter the bank, too: the status is ``banked`` then, the outcome
        ``reserved`` or ``vendor``. Records of earlier versions have the status alone.
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
    """The verdict's record as JSON, where there is more than one for the problem."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How much is in a ledger."""

    devices: int
    studies: int
    tells: int
    candidates: int
    builds: int
    measurements: int
    marks: int
    verdicts: int
