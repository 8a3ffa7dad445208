"""Fitting rankers to ledgers: they score candidates of problems that were never measured."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.ranker.fitting import (
        FAR,
        TREES,
        ProblemRows,
        by_kind,
        describe_trials,
        fit_ranker,
        problem_rows,
        shape_group,
    )
    from skipjack.learn.ranker.quality import (
        RankerSummary,
        held_out,
        part_scores,
        ranker_quality,
    )
    from skipjack.learn.ranker.schedules import schedule_rows

__all__ = [
    "FAR",
    "TREES",
    "ProblemRows",
    "RankerSummary",
    "by_kind",
    "describe_trials",
    "fit_ranker",
    "held_out",
    "part_scores",
    "problem_rows",
    "ranker_quality",
    "schedule_rows",
    "shape_group",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "fitting": (
            "FAR TREES ProblemRows by_kind describe_trials fit_ranker problem_rows shape_group"
        ),
        "quality": "RankerSummary held_out part_scores ranker_quality",
        "schedules": "schedule_rows",
    },
)
