"""What a sweep found: every point with its runs, the best, and what it gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Config
from skipjack.core.objective import Metric, Objective
from skipjack.core.trial import Status


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """One run, in the order of the sweep."""

    number: int
    point: Config
    status: Status
    metrics: Mapping[str, Metric]
    value: float | None
    """The first objective's metric as it was measured (more may be better); None if it failed."""
    reason: str = ""
    seconds: float = 0.0
    build_seconds: float = 0.0
    built: bool = False
    """Whether this run needed a new build."""
    cached: bool = False
    """Whether it is from an earlier sitting."""
    purpose: str = "search"
    """``baseline``, ``search``, ``screen`` (a short run), ``repeat`` or ``confirm``."""
    log: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better than the baseline: a ratio above 1 is better, with its interval."""

    ratio: float
    low: float
    high: float
    runs: int
    """Pairs of runs that it is from."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """All of a sweep. Trials are in the order in which they were run."""

    name: str
    objectives: tuple[Objective, ...]
    """The first one is searched for; with several there is a front."""
    trials: tuple[SweepTrial, ...]
    best: Config | None
    best_value: float | None
    best_spread: float = 0.0
    """Half the range of its runs, relative."""
    baseline: Config | None = None
    """The swept parameters as the base config has them, if it has all of them."""
    baseline_value: float | None = None
    gain: Gain | None = None
    confirmed: str = ""
    """How sure the best is: ``3 of 3 confirming runs held``; empty if nothing was confirmed."""
    builds: int = 0
    build_hits: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    full_config: Mapping[str, Any] = field(default_factory=dict)
    """The base config with the best point laid over it."""
    user_conf: tuple[str, ...] = ()
    """Lines for LoadGen's user.conf, where this is a LoadGen benchmark."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader: what was not available, what was stopped, and why."""
