"""The result of a sweep, and its progress while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from skipjack.core import Config, Metric, Objective, Status

# The result of a sweep: every run, the best point, and its gain.


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """One run of a sweep."""

    number: int
    point: Config
    status: Status
    metrics: Mapping[str, Metric]
    value: float | None
    """The metric of the first objective as measured; None if the run failed."""
    reason: str = ""
    seconds: float = 0.0
    build_seconds: float = 0.0
    built: bool = False
    """Whether this run needed a new build."""
    cached: bool = False
    """Whether the run is from an earlier session."""
    purpose: str = "search"
    """``baseline``, ``search``, ``screen`` (a short run), ``repeat`` or ``confirm``."""
    log: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as good as the baseline the best is, with an interval."""

    ratio: float
    low: float
    high: float
    runs: int
    """The number of pairs of runs behind it."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep. Trials are in the order in which they were run."""

    name: str
    objectives: tuple[Objective, ...]
    """The search optimises the first; several have a Pareto front."""
    trials: tuple[SweepTrial, ...]
    best: Config | None
    best_value: float | None
    best_spread: float = 0.0
    """Half the range of its runs, relative to the median."""
    baseline: Config | None = None
    """The base config's values of the swept parameters, if it has all of them."""
    baseline_value: float | None = None
    gain: Gain | None = None
    confirmed: str = ""
    """For example ``3 of 3 confirming runs held``; empty if nothing was confirmed."""
    builds: int = 0
    build_hits: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    full_config: Mapping[str, Any] = field(default_factory=dict)
    """The base config with the best point laid over it."""
    user_conf: tuple[str, ...] = ()
    """Lines for LoadGen's user.conf, if this is a LoadGen benchmark."""
    notes: tuple[str, ...] = ()
    """Remarks, such as what was not available or was stopped, and why."""


# Progress of a sweep, and how long it may still take.


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """What an observer receives when a run begins and when it ends."""

    phase: str
    """The purpose of the run: ``baseline``, ``search`` or ``confirm``."""
    done: int
    """Runs that have ended, including those of earlier sessions."""
    planned: int | None
    """Runs in all; None if the search depends on results and has no bound."""
    trial: SweepTrial | None = None
    """The run that has just ended; None when one begins."""
    running: Config | None = None
    """The point that is now built or run."""
    best: SweepTrial | None = None
    elapsed_s: float = 0.0
    eta_s: float | None = None
    """Estimated seconds that remain (`seconds_left`); None if not known."""
    counts: Mapping[Status, int] = field(default_factory=dict)
    """The number of runs by status."""
    metric: str = ""
    """The metric of the first objective."""
    at_most: bool = False
    """Whether the search may end before `planned` runs."""


SweepObserver = Callable[[SweepProgress], None]


def seconds_left(trials: Sequence[SweepTrial], runs: int, builds: int) -> float | None:
    """The estimated time of further runs and builds, from the medians of earlier ones.

    None if no run was made here yet.
    """
    fresh = [trial for trial in trials if not trial.cached and trial.seconds > 0.0]
    if runs and not fresh:
        return None
    run_s = median(trial.seconds for trial in fresh) if fresh else 0.0
    built = [trial.build_seconds for trial in trials if trial.built and not trial.cached]
    build_s = median(built) if built else 0.0
    return runs * run_s + builds * build_s
