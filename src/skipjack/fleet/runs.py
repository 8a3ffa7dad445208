"""A run: what is asked of a coordinator, how far it is, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skipjack.fleet.records import JobKind
from skipjack.fleet.states import Stage, State

LEASE_S = 60.0
LINGER_S = 15.0
"""How long a window waits for the other one to show up, while there is work for that one."""
MOST_AHEAD = 32


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands; given to the observer about once a second."""

    counts: Mapping[State, int]
    settled: Mapping[str, int]
    """By what came of it: built, told, finished, failed, lost, ..."""
    running: int
    elapsed_s: float
    note: str = ""
    """Something a person should know now."""


Observer = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did."""

    counts: Mapping[State, int]
    settled: Mapping[str, int]
    refused: int
    """Results that came too late: somebody else had the job by then."""
    seconds: float
    interrupted: bool
    idle_machines: tuple[str, ...] = ()
    """Machines of ours that get no jobs: aborted or set aside, with the reason."""
    unbuildable: tuple[str, ...] = ()
    """Devices of the label's jobs that nobody here builds for."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a coordinator should do."""

    label: str
    kind: JobKind = field(default=JobKind.TUNE, kw_only=True)
    """Jobs of other kinds are left to other runs."""
    devices: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of what jobs are for; those for other devices are left to other runs. None: all."""
    machine: str = field(default="", kw_only=True)
    """The only machine that evaluates; any one builds."""
    stages: tuple[Stage, ...] = (Stage.BUILD, Stage.EVALUATE)
    wait: bool = False
    """Stay when there is nothing to do, for jobs that are still to come."""
    lease_s: float = LEASE_S
    linger_s: float = LINGER_S
    most_ahead: int = MOST_AHEAD
    """Jobs that a worker holds at once, at most."""
    most_claimed: int = MOST_AHEAD
    """Jobs that are claimed for a worker in one transaction, at most."""
    observer: Observer = lambda _: None
