"""Where a sweep stands, and how long it may still take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.sweep.result import SweepTrial


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """What an observer is told when a run begins and when it ends."""

    phase: str
    """``baseline``, ``search``, ``confirm``: what the runs are for."""
    done: int
    """Runs that ended, those of an earlier sitting included."""
    planned: int | None
    """Runs in all; None where the search decides as it goes and nothing bounds it."""
    trial: SweepTrial | None = None
    """The run that has just ended; None when one begins."""
    running: Config | None = None
    """The point that is being built or run."""
    best: SweepTrial | None = None
    elapsed_s: float = 0.0
    eta_s: float | None = None
    """Seconds that are left, see `seconds_left`; None where it cannot be said."""
    counts: Mapping[Status, int] = field(default_factory=dict)
    """Runs by how they ended."""
    metric: str = ""
    """The name of the value that is searched for."""
    at_most: bool = False
    """Whether `planned` is a budget that need not be used up."""


SweepObserver = Callable[[SweepProgress], None]


def seconds_left(trials: Sequence[SweepTrial], runs: int, builds: int) -> float | None:
    """What so many runs and builds will take, judged by the median of those that were made here.

    None where there was none to judge by.
    """
    fresh = [trial for trial in trials if not trial.cached and trial.seconds > 0.0]
    if runs and not fresh:
        return None
    run_s = median(trial.seconds for trial in fresh) if fresh else 0.0
    built = [trial.build_seconds for trial in trials if trial.built and not trial.cached]
    build_s = median(built) if built else 0.0
    return runs * run_s + builds * build_s
