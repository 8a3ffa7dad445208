"""Jobs, labels, machines and claims as plain records. `fleet.store` stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from skipjack.core import Device, Value
from skipjack.fleet.model.states import Event, JobStage, JobStatus

LONGEST_LOG = 64 << 10
"""Characters kept of the log of one stage of one round; the end is kept."""


AUTO = "auto"
"""The name for a solver or a searcher that Skipjack chooses."""
MIOPEN = "miopen"
"""The driver of jobs that MIOpenDriver runs, and the solver of its tuning jobs."""


class JobKind(StrEnum):
    """The kinds of jobs; a run does jobs of one kind."""

    TUNE = "tune"
    FIND = "find"
    """Ranks all solvers."""
    KERNELS = "kernels"
    """Builds the winner, to ship it."""


@dataclass(frozen=True, slots=True)
class PriorResult:
    """A good config for the same problem and device from another job."""

    solver: str
    config: Mapping[str, Value]
    solver_version: int | None = None
    """Version of the solver that found it, if known."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a job has to find out; it never changes."""

    problem: str
    """Key of the problem."""
    device: str
    """Name of the device, for example ``znver4/1``."""
    solver: str = AUTO
    """``auto``: all promising solvers compete."""
    searcher: str = AUTO
    seed: int = 0
    budget: int = 32
    """Number of trials in all rounds."""
    round: int = 32
    """Number of trials in a round."""
    kind: JobKind = JobKind.TUNE
    driver: str = ""
    """The program that does the job, such as ``miopen``; empty: Skipjack's workers."""

    @property
    def by_miopen(self) -> bool:
        """Whether MIOpenDriver runs the job."""
        return self.driver == MIOPEN

    @property
    def shown_solver(self) -> str:
        """The text for the solver column of tables: the kind, unless it is a tuning."""
        return self.solver if self.kind is JobKind.TUNE else str(self.kind)

    @property
    def shown_searcher(self) -> str:
        """The text for the searcher column of tables: the driver, if there is one."""
        return self.driver or self.searcher


@dataclass(frozen=True, slots=True)
class Job:
    """A study that the fleet runs."""

    id: int
    label: str
    plan: JobPlan
    status: JobStatus
    priority: int = 0
    attempt: int = 0
    """Number of claims so far."""
    trials: int = 0
    """Trials told to the searcher so far, in this epoch."""
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    """The verdict of an evaluated job: outcome, solver, config, time and gains; for a find, the
    ranking."""
    build_machine: str = ""
    eval_machine: str = ""
    gpu: str = ""
    """The GPU or slot of the evaluating machine."""
    created: str = ""
    updated: str = ""
    device_class: str = ""
    """Class of the device it is for, once such a device was seen."""
    device_text: str = ""
    """Name of the device in tables, which distinguishes devices of one name."""


@dataclass(frozen=True, slots=True)
class Label:
    """A batch of jobs."""

    name: str
    owner: str
    toolchain: str = ""
    versions: str = ""
    image: str = ""
    ticket: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that runs jobs."""

    id: int
    name: str
    engine: str = "local"
    cores: int = 0
    memory_bytes: int = 0
    devices: tuple[str, ...] = ()
    """Names of the devices that can be measured there."""
    aborted: bool = False
    """Whether it was aborted, and gets no jobs until it is resumed."""
    quarantined: str = ""
    """Why it was quarantined after repeated failures; empty if it was not."""
    failures: int = 0
    """Jobs in a row that its workers reported as failed."""
    seen: str = ""
    losses: int = 0
    """Jobs in a row whose worker was lost."""
    pause_s: float = 0.0
    """Remaining time without jobs, at the time of the query, because workers were lost."""
    paused_why: str = ""
    """Reason of the last pause, which may be over."""

    @property
    def pause(self) -> str:
        """Why the machine is paused; empty if it is not."""
        return self.paused_why if self.pause_s > 0 else ""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event in the history of a job. Events are added, never changed."""

    number: int
    at: str
    event: str
    """Name of the event in lower case: claimed, built, told, failed, ..."""
    before: str
    after: str
    epoch: int
    round: int
    attempt: int
    machine: str
    gpu: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """A worker that is ready for jobs."""

    machine: int
    slot: str
    devices: tuple[Device, ...] = ()
    """Devices that it measures on."""
    count: int = 1
    gpu: str = ""
    """GPU of its machine, for display."""
    builds_for: tuple[str, ...] | None = None
    """Names of devices that a builder supports; None: all. Any builder takes jobs of MIOpen."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that an owner holds. An owner that has lost it cannot store its result."""

    job: int
    attempt: int
    stage: JobStage
    machine: int
    slot: str
    gpu: str = ""
    """GPU of its machine, for display; empty: the slot's name is shown."""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of a claim: stored in one transaction, or refused if the claim was lost."""

    claim: Claim
    event: Event
    facts: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The round's new rows of the ledger by table, if it was built or evaluated."""
    digests: tuple[str, ...] = ()
    """Digests of the artifacts that the evaluation of a build needs."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    trials: int = 0
    """Number of trials in this round."""
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    log: str = ""
    log_started: bool = False
    """Whether the store already has the beginning of the log."""
    device_seconds: float = 0.0
    """How long an evaluator worked on it; 0 if that is not known."""

    @property
    def event_word(self) -> str:
        """The name of its event in the summary of a run."""
        return "finished" if self.result is not None else type(self.event).__name__.lower()
