"""What a sweep may spend, and how sure it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.objective import Objective
from skipjack.core.study import Budget
from skipjack.errors import UsageError
from skipjack.sweep.progress import SweepObserver


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to go about a sweep."""

    objectives: tuple[Objective, ...] = ()
    """The first is searched for. Empty: LoadGen's own metric, known after the first run."""
    requirements: tuple[str, ...] = ()
    """What a run must satisfy besides, for an objective that is known later."""
    budget: Budget = field(default_factory=Budget)
    repeats: int = 1
    """Runs of each point; its value is their median."""
    confirm: int = 2
    """Further runs of the best and of the baseline, in turns; 0 believes the search."""
    screen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of short runs that the search is made with; confirming runs are without them."""
    joint_screen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of short runs that a search lays over some of its points itself."""
    load: str = ""
    """The parameter whose largest value is wanted that holds; it is a metric of each run, too."""
    baseline: bool = True
    """Whether the base config itself is run, to know what is gained."""
    observer: SweepObserver = lambda progress: None

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise UsageError(f"--repeats {self.repeats} measures nothing; give at least 1")
        if self.confirm < 0:
            raise UsageError(f"--confirm {self.confirm} is no number of runs; give 0 or more")
        if (self.screen or self.joint_screen) and not self.confirm:
            raise UsageError("--screen finds by short runs; full runs are needed, so --confirm > 0")
        if self.load and self.repeats > 1:
            raise UsageError("--load repeats runs where that helps; leave out --repeats")
