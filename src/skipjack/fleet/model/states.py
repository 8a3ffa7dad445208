"""The life of a job, as a pure function of its status and an event.

::

  load ─▶ new ─claimed─▶ building ─built─▶ built ─claimed─▶ evaluating ─finished─▶ evaluated
          ▲ ▲               │                ▲                 │  │
          │ └─── failed, ───┘                └──── failed, ────┘  │
          │      lost,      │                      lost,          │
          │      released   │                      released       │
          │                 └─ inapplicable ─▶ not_applicable     │
          │                                                       │
          └── told, budget left: the next round ──────────────────┤
          └── artifact lost: the same round ──────────────────────┘

  building, evaluating ─ failed for the 3rd, lost for the 20th time in a row ─▶ error
  new, building, built, evaluating ─ aborted ─▶ aborted ─ resumed ─▶ new or built
  evaluated, ended early ─ continued ─▶ new: the next round
  anything but building, evaluating ─ reset ─▶ new;  error of an evaluation ─ reset ─▶ built

A job is a study in rounds: a batch of configs is asked for and built, then evaluated and told. Only
failures of the fleet fail a job: a config that crashes, hangs or computes wrong results is a trial
like any other, and its round continues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from skipjack.errors import SkipjackError

MOST_FAILURES = 3
"""Failures of one round in a row after which a job is in state error."""
MOST_LOSSES = 20
"""The same limit for lost workers and coordinators, which are mostly not the job's fault."""


class JobState(StrEnum):
    """The states of a job."""

    NEW = "new"
    BUILDING = "building"
    BUILT = "built"
    EVALUATING = "evaluating"
    EVALUATED = "evaluated"
    NOT_APPLICABLE = "not_applicable"
    ERROR = "error"
    ABORTED = "aborted"

    @property
    def claimed(self) -> bool:
        """Whether a worker has it; exactly then it has an owner."""
        return self in (JobState.BUILDING, JobState.EVALUATING)

    @property
    def over(self) -> bool:
        """Whether it changes only by a reset."""
        return self in _OVER

    @property
    def going(self) -> bool:
        """Whether it is waiting or in work."""
        return not self.over and self is not JobState.ABORTED


_OVER = (JobState.EVALUATED, JobState.NOT_APPLICABLE, JobState.ERROR)


class JobStage(StrEnum):
    """The two stages of a round."""

    BUILD = "build"
    EVALUATE = "evaluate"

    @property
    def waiting(self) -> JobState:
        """The state in which jobs wait for it."""
        return JobState.NEW if self is JobStage.BUILD else JobState.BUILT

    @property
    def working(self) -> JobState:
        """The state of jobs during it."""
        return JobState.BUILDING if self is JobStage.BUILD else JobState.EVALUATING


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Everything about a job that decides which transitions are possible."""

    state: JobState = JobState.NEW
    epoch: int = 0
    """Number of times it was started over."""
    round: int = 0
    failures: int = 0
    """Failures of this stage in a row."""
    losses: int = 0
    """Losses in this round: of its worker, its coordinator or its machine code."""
    stage: JobStage | None = None
    """Stage in which an error happened."""
    reason: str = ""
    """Reason of the last failure, or why it is not applicable."""
    resume: JobState | None = None
    """State in which an aborted job continues."""

    @property
    def retries(self) -> int:
        """Number of failed attempts at its current stage."""
        return self.failures + self.losses

    @property
    def working(self) -> JobStage:
        """The stage that a claimed job is in."""
        return JobStage.BUILD if self.state is JobState.BUILDING else JobStage.EVALUATE


class IllegalStepError(SkipjackError):
    """An event that is impossible in the current state of a job."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A coordinator took the job for a worker."""

    reason: str = ""
    """Set if a bundle brought its result; empty for an ordinary claim."""


@dataclass(frozen=True, slots=True)
class Built:
    """The round's configs are built; trials record those that failed to build."""


@dataclass(frozen=True, slots=True)
class Told:
    """The round was evaluated; `finished` if the budget is spent and there is a verdict."""

    finished: bool


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """No solver supports this problem on this device."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker reported a failure; `hopeless` if no other worker could succeed either."""

    reason: str
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker or its coordinator was lost."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Given back without a result: the coordinator ends, or the machine was aborted."""

    reason: str


@dataclass(frozen=True, slots=True)
class ArtifactLost:
    """Machine code of the round is missing from the store, or is damaged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """The user stopped the job."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The user let an aborted job continue."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continued:
    """A job that ended before its budget was spent gets further rounds."""

    reason: str = "further device-seconds"


@dataclass(frozen=True, slots=True)
class Reset:
    """The user starts the round again, or a finished job from its beginning."""

    to: JobState
    by: str = ""
    """Who did it."""


Event = (
    Claimed
    | Built
    | Told
    | Inapplicable
    | Failed
    | Lost
    | Released
    | ArtifactLost
    | Aborted
    | Resumed
    | Continued
    | Reset
)


def advance(job: JobStatus, event: Event) -> JobStatus:
    """The status of the job after an event; `IllegalStepError` if the event is impossible."""
    match event, job.state:
        case Claimed(), JobState.NEW:
            return replace(job, state=JobState.BUILDING)
        case Claimed(), JobState.BUILT:
            return replace(job, state=JobState.EVALUATING)
        case Built(), JobState.BUILDING:
            # Losses count until the round is told: code may be lost repeatedly.
            return replace(_progressed(job, JobState.BUILT), losses=job.losses)
        case Told(finished=True), JobState.EVALUATING:
            return _progressed(job, JobState.EVALUATED)
        case Told(), JobState.EVALUATING:
            return replace(_progressed(job, JobState.NEW), round=job.round + 1)
        case Inapplicable(reason), JobState.BUILDING:
            return replace(_progressed(job, JobState.NOT_APPLICABLE), reason=reason)
        case Failed(reason, hopeless), JobState.BUILDING | JobState.EVALUATING:
            failed = replace(job, failures=job.failures + 1, reason=reason)
            return _given_up(failed) if hopeless else _retried(failed)
        case Lost(reason), JobState.BUILDING | JobState.EVALUATING:
            return _retried(replace(job, losses=job.losses + 1, reason=reason))
        case Released(), JobState.BUILDING | JobState.EVALUATING:
            return replace(job, state=job.working.waiting)
        case ArtifactLost(reason), JobState.EVALUATING | JobState.BUILT:
            return _code_lost(replace(job, losses=job.losses + 1, reason=reason))
        case Aborted(
            reason
        ), JobState.NEW | JobState.BUILDING | JobState.BUILT | JobState.EVALUATING:
            waiting = job.working.waiting if job.state.claimed else job.state
            return replace(job, state=JobState.ABORTED, resume=waiting, reason=reason)
        case Resumed(), JobState.ABORTED:
            return replace(job, state=job.resume or JobState.NEW, resume=None, reason="")
        case Continued(), JobState.EVALUATED:
            return replace(_progressed(job, JobState.NEW), round=job.round + 1)
        case Reset(), _:
            return _reset(job, event.to)
    raise IllegalStepError(f"a job that is {job.state} cannot be {type(event).__name__.lower()}")


def _progressed(job: JobStatus, state: JobState) -> JobStatus:
    return replace(job, state=state, failures=0, losses=0, stage=None, reason="")


def _retried(job: JobStatus) -> JobStatus:
    """Back to the waiting state, or to error after too many attempts."""
    if job.failures >= MOST_FAILURES or job.losses >= MOST_LOSSES:
        return _given_up(job)
    return replace(job, state=job.working.waiting)


def _given_up(job: JobStatus) -> JobStatus:
    return replace(job, state=JobState.ERROR, stage=job.working)


def _code_lost(job: JobStatus) -> JobStatus:
    """To be built again, or in error after too many losses."""
    if job.losses >= MOST_LOSSES:
        return replace(job, state=JobState.ERROR, stage=JobStage.EVALUATE)
    return replace(job, state=JobState.NEW)


def _reset(job: JobStatus, to: JobState) -> JobStatus:
    fresh = JobStatus(to, job.epoch, job.round)
    if to is JobState.BUILT and job.state is JobState.ERROR and job.stage is JobStage.EVALUATE:
        return fresh
    if to is JobState.NEW and job.state in (JobState.EVALUATED, JobState.NOT_APPLICABLE):
        return JobStatus(JobState.NEW, job.epoch + 1)
    if to is JobState.NEW and not job.state.claimed:
        return fresh
    raise IllegalStepError(f"a job that is {job.state} cannot be reset to {to}")
