"""What a user may choose about a tuning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core.annotations import fits
from skipjack.core.objective import Objective
from skipjack.core.study import Budget
from skipjack.errors import UsageError

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
