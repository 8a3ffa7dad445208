"""What a user may choose about a tuning, and the seconds of a study run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core.annotations import fits
from skipjack.core.objective import Objective
from skipjack.core.study import Budget
from skipjack.errors import UsageError
from skipjack.interrupt import Interrupt
from skipjack.tuning.context import Clock

DEFAULT_SECONDS = 5.0
FIND_SECONDS = 10.0
"""For all solvers of a problem together."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a study stands; given to the observer after every batch."""

    problem: str
    phase: str
    trials: int
    failed: int
    builds: int
    best_ns: float | None
    default_ns: float | None
    elapsed_s: float
    budget: Budget


Observer = Callable[[Progress], None]


def _ignore(_: Progress) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search and how to judge."""

    budget: Budget = field(default_factory=lambda: Budget(seconds=DEFAULT_SECONDS))
    searcher: str = "auto"
    seed: int = 0
    solver: str | None = None
    retune: bool = False
    objective: Objective = field(default_factory=Objective)
    observer: Observer = _ignore

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise UsageError(
                f"budget is {self.budget!r}; write skipjack.core.study.Budget(trials=4) or "
                "Budget(seconds=2.0)"
            )
        if self.solver is not None and not isinstance(self.solver, str):
            raise UsageError(
                f"solver is {self.solver!r}, not the name of one; to compare several, give "
                "`solvers` to skipjack.find"
            )
        if not isinstance(self.searcher, str):
            raise UsageError(f"searcher is {self.searcher!r}, not the name of one")
        if not fits(self.seed, int):
            raise UsageError(f"seed is {self.seed!r}; give a whole number")
        if self.seed < 0:
            raise UsageError(f"seed {self.seed} is negative; give 0 or more")


_FINISH_SHARE = 0.12
_FINISH_AT_LEAST_S = 0.25
"""Of a budget in seconds, this much is kept for the final and the confirmation."""
_SEARCH_SHARE = 0.3
"""This much is searched, however long the final will take."""
_OVERDUE, OVERDUE_S = 3.0, 30.0
"""After so many times the seconds, and so many of them, nobody is waited for any more."""
PREPARING = 0.4
"""Share of the seconds that filling arrays, computing the reference and importing libraries can
take away at most."""


class TimeLimit:
    """Begins when it is made. Preparing a problem counts until `prepared` is called."""

    def __init__(
        self, seconds: float | None, interrupt: Interrupt, clock: Clock = time.monotonic
    ) -> None:
        self._seconds, self._interrupt, self._clock = seconds, interrupt, clock
        self.started = self._prepared = self._clock()

    def prepared(self) -> None:
        """Arrays and reference are there; what they took beyond a share is not counted."""
        self._prepared = self._clock()

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C."""
        return self._interrupt.requested

    def over(self) -> bool:
        """Whether the seconds are spent, or somebody pressed Ctrl-C."""
        return self.interrupted or self._left_s() < 0.0

    def overdue(self) -> bool:
        """Whether the seconds were spent several times over."""
        seconds = self._seconds or 0.0
        return self._left_s() < seconds - max(_OVERDUE * seconds, OVERDUE_S)

    def late(self, final_s: float) -> bool:
        """Whether what is left is needed for the final, which takes at least so long."""
        if self._seconds is None:
            return False
        reserve = max(_FINISH_AT_LEAST_S, _FINISH_SHARE * self._seconds, final_s)
        return self._left_s() <= min(reserve, (1.0 - _SEARCH_SHARE) * self._seconds)

    def _left_s(self) -> float:
        if self._seconds is None:
            return float("inf")
        # It began later than the sitting where preparing took most of it.
        began = max(self.started, self._prepared - PREPARING * self._seconds)
        return began + self._seconds - self._clock()
