"""What the store holds, as plain records. How it is stored is for `fleet.store` to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from skipjack.core.config import Value
from skipjack.core.device import Device
from skipjack.fleet.states import Event, Stage, Standing

LONGEST_LOG = 64 << 10
"""Characters that are kept of one stage's log of one round; the end of it counts."""


AUTO = "auto"
"""The name of a solver or a searcher that Skipjack is to choose."""
MIOPEN = "miopen"
"""The driver of jobs that MIOpenDriver does, and the solver of its tunings."""


class JobKind(StrEnum):
    """What a job is for; a run does jobs of one kind."""

    TUNE = "tune"
    FIND = "find"
    """All solvers are ranked."""
    KERNELS = "kernels"
    """The winner is built to be shipped."""


@dataclass(frozen=True, slots=True)
class Known:
    """A config that did well on the same problem and device in another job."""

    solver: str
    config: Mapping[str, Value]
    solver_version: int | None = None
    """Of who found it, where that is known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job is to find out; it never changes."""

    problem: str
    """Its key."""
    device: str
    """As ``znver4/1``."""
    solver: str = AUTO
    """``auto``: those that promise something race, as in a tuning."""
    searcher: str = AUTO
    seed: int = 0
    budget: int = 32
    """Trials in all."""
    round: int = 32
    """Trials that are asked for at once."""
    kind: JobKind = JobKind.TUNE
    driver: str = ""
    """The program that does the job by itself, as ``miopen``; empty: Skipjack's workers do it."""

    @property
    def by_miopen(self) -> bool:
        """Whether MIOpenDriver does the job."""
        return self.driver == MIOPEN

    @property
    def shown_solver(self) -> str:
        """What tables have in the column of solvers: the kind, unless it is a tuning."""
        return self.solver if self.kind is JobKind.TUNE else str(self.kind)

    @property
    def shown_searcher(self) -> str:
        """What tables have in the column of searchers: the driver, if there is one."""
        return self.driver or self.searcher


@dataclass(frozen=True, slots=True)
class Job:
    """A study as fleet work."""

    id: int
    label: str
    plan: Plan
    standing: Standing
    priority: int = 0
    attempt: int = 0
    """How often it was claimed."""
    trials: int = 0
    """Told so far, in this epoch."""
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    """What its verdict says: outcome, solver, config, time and gains; once it is evaluated. Of a
    find, the ranking."""
    build_machine: str = ""
    eval_machine: str = ""
    gpu: str = ""
    """The slot of the evaluating machine."""
    created: str = ""
    updated: str = ""
    device_class: str = ""
    """That of the device it is for, once one was seen."""
    device_text: str = ""
    """How tables name it: other devices of its name may differ."""


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
    """A host that runs jobs."""

    id: int
    name: str
    engine: str = "local"
    cores: int = 0
    memory_bytes: int = 0
    devices: tuple[str, ...] = ()
    """Names of what can be measured there."""
    aborted: bool = False
    """Somebody told it to stop until it is resumed."""
    set_aside: str = ""
    """Why it gets no jobs any more, if it kept failing."""
    failures: int = 0
    """Jobs in a row of which its workers said that they could not do them."""
    seen: str = ""
    losses: int = 0
    """Jobs in a row whose worker was never heard of again."""
    pause_s: float = 0.0
    """How long it gets no jobs, when it was asked, because its workers are lost."""
    paused_why: str = ""
    """Of the last pause, which may be over."""

    @property
    def pause(self) -> str:
        """Why it gets no jobs for a while; empty if it may have some now."""
        return self.paused_why if self.pause_s > 0 else ""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One thing that happened to a job. Lines are added, never changed."""

    number: int
    at: str
    event: str
    """The name of the event in lower case: claimed, built, told, failed, ..."""
    before: str
    after: str
    epoch: int
    round: int
    attempt: int
    machine: str
    gpu: str
    reason: str


@dataclass(frozen=True, slots=True)
class Want:
    """A worker that could take jobs."""

    machine: int
    slot: str
    devices: tuple[Device, ...] = ()
    """Those it measures on."""
    count: int = 1
    gpu: str = ""
    """Which one of its machine, for people."""
    builds_for: tuple[str, ...] | None = None
    """Names of what a builder builds for; None: all. Jobs of MIOpen pass any builder."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job in the hands of an owner. Who has lost it in the meantime cannot settle it."""

    job: int
    attempt: int
    stage: Stage
    machine: int
    slot: str
    gpu: str = ""
    """Which one of its machine, for people; the slot's name if nothing is said."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of a claim: written in one transaction, or not at all if the claim is lost."""

    claim: Claim
    event: Event
    facts: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The round's new rows of the ledger, by table; there if it was built or told."""
    digests: tuple[str, ...] = ()
    """Artifacts that the evaluation of what was built will need."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    trials: int = 0
    """Told in this round."""
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    log: str = ""
    overheard: bool = False
    """Whether the store has the beginning of the log already."""
