"""The trials of ledgers as training data: what was measured of each problem, on one scale."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.trials.ledgers import is_ledger, opened_ledger, read_trials
    from skipjack.learn.trials.measured import (
        MeasuredConfig,
        ProblemTrials,
        on_one_scale,
        solver_trials,
    )

__all__ = [
    "MeasuredConfig",
    "ProblemTrials",
    "is_ledger",
    "on_one_scale",
    "opened_ledger",
    "read_trials",
    "solver_trials",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "ledgers": "is_ledger opened_ledger read_trials",
        "measured": "MeasuredConfig ProblemTrials on_one_scale solver_trials",
    },
)
