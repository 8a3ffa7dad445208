"""The life of a job, as a pure function of where it stands and what happened to it.

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
  anything but building, evaluating ─ reset ─▶ new;  error of an evaluation ─ reset ─▶ built

A job is a study in rounds: a batch of configs is asked for and built, then evaluated and told. What
failed is what the machinery did: a config that crashes, hangs or lies is a trial like any other,
and its round goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from skipjack.errors import SkipjackError

MOST_FAILURES = 3
"""Failures of one round in a row after which a job is in error."""
MOST_LOSSES = 20
"""Likewise for workers and coordinators that vanished, which is mostly not the job's fault."""


class State(StrEnum):
    """Where a job stands."""

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
        """Whether somebody works on it: exactly then it has an owner."""
        return self in (State.BUILDING, State.EVALUATING)

    @property
    def over(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self in _OVER

    @property
    def going(self) -> bool:
        """Whether it waits or is worked on."""
        return not self.over and self is not State.ABORTED


_OVER = (State.EVALUATED, State.NOT_APPLICABLE, State.ERROR)


class Stage(StrEnum):
    """The two kinds of work on a round."""

    BUILD = "build"
    EVALUATE = "evaluate"

    @property
    def waiting(self) -> State:
        """Where jobs wait for it."""
        return State.NEW if self is Stage.BUILD else State.BUILT

    @property
    def working(self) -> State:
        """Where jobs are during it."""
        return State.BUILDING if self is Stage.BUILD else State.EVALUATING


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything about a job that decides what may happen next."""

    state: State = State.NEW
    epoch: int = 0
    """How often it was started over."""
    round: int = 0
    failures: int = 0
    """Of this stage in a row."""
    losses: int = 0
    """Of this round: whoever worked on it was never heard of again, or its code was gone."""
    stage: Stage | None = None
    """Where an error happened."""
    reason: str = ""
    """Of the last failure, or why it is not applicable."""
    resume: State | None = None
    """Where an aborted job goes on."""

    @property
    def retries(self) -> int:
        """How often what it waits for, or is at, was tried in vain."""
        return self.failures + self.losses

    @property
    def working(self) -> Stage:
        """The stage that a claimed job is in."""
        return Stage.BUILD if self.state is State.BUILDING else Stage.EVALUATE


class IllegalStepError(SkipjackError):
    """Something happened to a job that cannot happen where it stands."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A coordinator took it for a worker."""

    reason: str = ""
    """How else it came to that: a bundle brought its result."""


@dataclass(frozen=True, slots=True)
class Built:
    """The round's configs are built, or failed to build, which their trials will say."""


@dataclass(frozen=True, slots=True)
class Told:
    """The round was evaluated; `finished` if the budget is spent and the verdict spoken."""

    finished: bool


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """No solver can do this problem on this device."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker said that it could not do its work; `hopeless` if the job itself is to blame."""

    reason: str
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker or its coordinator was never heard of again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Given back untouched: the coordinator ends, or the machine is wanted for something else."""

    reason: str


@dataclass(frozen=True, slots=True)
class ArtifactLost:
    """Machine code that was built is not in the store any more, or is damaged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """Somebody wants it to stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """It may go on."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Somebody wants the round done again, or a finished job from its start."""

    to: State


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
    | Reset
)


def advance(job: Standing, event: Event) -> Standing:
    """Where the job stands after the event; `IllegalStepError` if that cannot happen to it."""
    match event, job.state:
        case Claimed(), State.NEW:
            return replace(job, state=State.BUILDING)
        case Claimed(), State.BUILT:
            return replace(job, state=State.EVALUATING)
        case Built(), State.BUILDING:
            # Losses are counted until the round is told: code may be lost again and again.
            return replace(_progressed(job, State.BUILT), losses=job.losses)
        case Told(finished=True), State.EVALUATING:
            return _progressed(job, State.EVALUATED)
        case Told(), State.EVALUATING:
            return replace(_progressed(job, State.NEW), round=job.round + 1)
        case Inapplicable(reason), State.BUILDING:
            return replace(_progressed(job, State.NOT_APPLICABLE), reason=reason)
        case Failed(reason, hopeless), State.BUILDING | State.EVALUATING:
            failed = replace(job, failures=job.failures + 1, reason=reason)
            return _given_up(failed) if hopeless else _retried(failed)
        case Lost(reason), State.BUILDING | State.EVALUATING:
            return _retried(replace(job, losses=job.losses + 1, reason=reason))
        case Released(), State.BUILDING | State.EVALUATING:
            return replace(job, state=job.working.waiting)
        case ArtifactLost(reason), State.EVALUATING | State.BUILT:
            return _code_lost(replace(job, losses=job.losses + 1, reason=reason))
        case Aborted(reason), State.NEW | State.BUILDING | State.BUILT | State.EVALUATING:
            waiting = job.working.waiting if job.state.claimed else job.state
            return replace(job, state=State.ABORTED, resume=waiting, reason=reason)
        case Resumed(), State.ABORTED:
            return replace(job, state=job.resume or State.NEW, resume=None, reason="")
        case Reset(), _:
            return _reset(job, event.to)
    raise IllegalStepError(f"a job that is {job.state} cannot be {type(event).__name__.lower()}")


def _progressed(job: Standing, state: State) -> Standing:
    return replace(job, state=state, failures=0, losses=0, stage=None, reason="")


def _retried(job: Standing) -> Standing:
    """Back to where it waits, or in error after too many times."""
    if job.failures >= MOST_FAILURES or job.losses >= MOST_LOSSES:
        return _given_up(job)
    return replace(job, state=job.working.waiting)


def _given_up(job: Standing) -> Standing:
    return replace(job, state=State.ERROR, stage=job.working)


def _code_lost(job: Standing) -> Standing:
    """To be built again, or in error if that did not help for too long."""
    if job.losses >= MOST_LOSSES:
        return replace(job, state=State.ERROR, stage=Stage.EVALUATE)
    return replace(job, state=State.NEW)


def _reset(job: Standing, to: State) -> Standing:
    fresh = Standing(to, job.epoch, job.round)
    if to is State.BUILT and job.state is State.ERROR and job.stage is Stage.EVALUATE:
        return fresh
    if to is State.NEW and job.state in (State.EVALUATED, State.NOT_APPLICABLE):
        return Standing(State.NEW, job.epoch + 1)
    if to is State.NEW and not job.state.claimed:
        return fresh
    raise IllegalStepError(f"a job that is {job.state} cannot be reset to {to}")
