"""A run: what is requested, its progress and summary, and how far workers are supplied ahead."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skipjack.fleet.model import JobKind, JobStage, JobState

# A run: the request to a coordinator, its progress, and its summary.

LEASE_S = 60.0
LINGER_S = 15.0
"""How long a run of one stage waits for a run of the other stage, while that has work."""
MOST_AHEAD = 32


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run, reported to the observer about once a second."""

    counts: Mapping[JobState, int]
    settled: Mapping[str, int]
    """Number of jobs by result: built, told, finished, failed, lost, ..."""
    running: int
    elapsed_s: float
    note: str = ""
    """A message for the user."""


Observer = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a run."""

    counts: Mapping[JobState, int]
    settled: Mapping[str, int]
    refused: int
    """Number of results that came too late: another coordinator had the job."""
    seconds: float
    interrupted: bool
    idle_machines: tuple[str, ...] = ()
    """Machines of this run that get no jobs: aborted or quarantined, with the reason."""
    unbuildable: tuple[str, ...] = ()
    """Devices of the label's jobs that no builder of this run supports."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a coordinator has to do."""

    label: str
    kind: JobKind = field(default=JobKind.TUNE, kw_only=True)
    """Jobs of other kinds are left to other runs."""
    devices: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of devices; jobs for others are left to other runs. Empty: all devices."""
    machine: str = field(default="", kw_only=True)
    """The only machine that evaluates; any one builds."""
    stages: tuple[JobStage, ...] = (JobStage.BUILD, JobStage.EVALUATE)
    wait: bool = False
    """Keep waiting for new jobs when all are finished."""
    lease_s: float = LEASE_S
    linger_s: float = LINGER_S
    most_ahead: int = MOST_AHEAD
    """Maximum number of jobs that a worker holds."""
    most_claimed: int = MOST_AHEAD
    """Maximum number of jobs claimed for a worker in one transaction."""
    observer: Observer = lambda _: None


# How many tasks workers hold ahead, and intervals of periodic work.

_AHEAD_S = 0.5
"""Work that a worker holds ahead, so that it need not wait for the store between two jobs."""


@dataclass
class TaskPace:
    """The mean duration of a task, from which follows how many a worker should hold."""

    seconds: float = math.inf

    def note(self, seconds: float) -> None:
        before = self.seconds if self.seconds < math.inf else seconds
        self.seconds = 0.8 * before + 0.2 * seconds

    def ahead(self, most: int) -> int:
        if self.seconds == math.inf:
            return min(2, most)
        wanted = 1 + math.ceil(_AHEAD_S / max(self.seconds, 1e-4))
        return max(1, min(most, wanted))


@dataclass
class Interval:
    """Tells when periodic work is due."""

    every_s: float
    last: float = field(default=-math.inf)

    def due(self) -> bool:
        now = time.monotonic()
        if now - self.last < self.every_s:
            return False
        self.last = now
        return True
