"""Training heuristics, which answer for problems that were never measured."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.heuristic.evaluation import (
        FIRST,
        HEURISTIC,
        NEAREST,
        SEARCHED,
        Folds,
        HeldOutProblem,
        QualitySummary,
        finished,
        interval,
        is_better,
        named_configs,
        shape_folds,
        summarized,
        summarized_way,
    )
    from skipjack.learn.heuristic.training import (
        HeuristicOptions,
        PortfolioScores,
        cover,
        fit_heuristic,
        winners,
    )
    from skipjack.learn.heuristic.variation import varied

__all__ = [
    "FIRST",
    "HEURISTIC",
    "NEAREST",
    "SEARCHED",
    "Folds",
    "HeldOutProblem",
    "HeuristicOptions",
    "PortfolioScores",
    "QualitySummary",
    "cover",
    "finished",
    "fit_heuristic",
    "interval",
    "is_better",
    "named_configs",
    "shape_folds",
    "summarized",
    "summarized_way",
    "varied",
    "winners",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "evaluation": (
            "FIRST Folds HEURISTIC HeldOutProblem NEAREST QualitySummary SEARCHED finished "
            "interval is_better named_configs shape_folds summarized summarized_way"
        ),
        "training": "HeuristicOptions PortfolioScores cover fit_heuristic winners",
        "variation": "varied",
    },
)
