"""The options of a tuning, and the time limit of a study run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from skipjack.core import Budget, Objective, Value, matches_type
from skipjack.errors import ArgumentTypeError, UsageError
from skipjack.interrupt import Interrupt
from skipjack.solvers import spelled_pins
from skipjack.tuning.study.context import Clock
from skipjack.tuning.study.limits import LIMITS, Limits


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """How far a study is; passed to the observer after every batch."""

    problem: str
    phase: str
    trials: int
    failed: int
    builds: int
    best_ns: float | None
    default_ns: float | None
    elapsed_s: float
    budget: Budget


Observer = Callable[[TuneProgress], None]


def _ignore(_: TuneProgress) -> None:
    """The observer of a tuning without one."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search, and how to decide on the result."""

    budget: Budget | None = None
    """None: the `tune_seconds` or `find_seconds` of the limits."""
    searcher: str = "auto"
    seed: int = 0
    solver: str | None = None
    retune: bool = False
    pinned: Mapping[str, Value] = field(default_factory=dict)
    """Settings that all configs must have, as ``{"program": "two_pass"}``."""
    objective: Objective = field(default_factory=Objective)
    observer: Observer = _ignore
    limits: Limits | None = None
    """The limits of the engine; None: those of a `Tuner`'s settings."""

    def __post_init__(self) -> None:
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise ArgumentTypeError(
                f"budget is {self.budget!r}; write skipjack.core.study.Budget(trials=4) or "
                "Budget(seconds=2.0)"
            )
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise ArgumentTypeError(
                f"limits is {self.limits!r}; write dataclasses.replace(skipjack.tuning.Limits(), "
                "finalists=8)"
            )
        if self.solver is not None and not isinstance(self.solver, str):
            raise ArgumentTypeError(
                f"solver is {self.solver!r}, not the name of a solver; to compare several, pass "
                "`solvers` to skipjack.find"
            )
        if not isinstance(self.searcher, str):
            raise ArgumentTypeError(f"searcher is {self.searcher!r}, not the name of a searcher")
        if not matches_type(self.pinned, Mapping[str, Value]):
            raise ArgumentTypeError(
                f"pinned is {self.pinned!r}; give settings by name, as {{'program': 'two_pass'}}"
            )
        if not matches_type(self.seed, int):
            raise ArgumentTypeError(f"seed is {self.seed!r}; give a whole number")
        if self.seed < 0:
            raise UsageError(f"seed {self.seed} is negative; give 0 or more")

    @property
    def pins(self) -> dict[str, str]:
        """The pinned settings as texts."""
        return spelled_pins(self.pinned)

    @property
    def chosen_limits(self) -> Limits:
        """The limits, or the defaults."""
        return self.limits or LIMITS

    @property
    def chosen_budget(self) -> Budget:
        """The budget, or the default of a tuning."""
        return self.budget or Budget(seconds=self.chosen_limits.tune_seconds)

    def completed(self, limits: Limits, *, finding: bool = False) -> TuneOptions:
        """The options with `limits` if they have none, and a default budget if they have none."""
        chosen = self.limits or limits
        seconds = chosen.find_seconds if finding else chosen.tune_seconds
        return replace(self, limits=chosen, budget=self.budget or Budget(seconds=seconds))


class TimeLimit:
    """The seconds of a budget, counted from its creation; also ended by Ctrl-C.

    Of the time until `prepared` is called, only a share is counted.
    """

    def __init__(
        self,
        budget: Budget,
        interrupt: Interrupt,
        clock: Clock = time.monotonic,
        limits: Limits = LIMITS,
    ) -> None:
        self.budget, self.clock, self.limits = budget, clock, limits
        self._interrupt = interrupt
        self.started = self._prepared = clock()

    def prepared(self) -> None:
        """Note that arrays and references are ready; time they took beyond a share is free."""
        self._prepared = self.clock()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupt.requested

    def over(self) -> bool:
        """Whether the seconds are spent, or Ctrl-C was pressed."""
        return self.interrupted or self._left_s() < 0.0

    def overdue(self) -> bool:
        """Whether the seconds were spent several times over."""
        seconds, limits = self.budget.seconds or 0.0, self.limits
        return self._left_s() < seconds - max(limits.overdue_ratio * seconds, limits.overdue_s)

    def late(self, final_s: float) -> bool:
        """Whether the rest of the time is needed for the final, which takes at least `final_s`."""
        seconds, limits = self.budget.seconds, self.limits
        if seconds is None:
            return False
        reserve = max(limits.finish_at_least_s, limits.finish_share * seconds, final_s)
        return self._left_s() <= min(reserve, (1.0 - limits.search_share) * seconds)

    def _left_s(self) -> float:
        seconds = self.budget.seconds
        if seconds is None:
            return float("inf")
        # If preparing took long, the budget counts from a later time than the start of the run.
        began = max(self.started, self._prepared - self.limits.preparing_share * seconds)
        return began + seconds - self.clock()
