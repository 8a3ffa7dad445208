"""Models that predict from features of problems and configs, with NumPy alone."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.models.boosting import (
        BoostingOptions,
        Loss,
        fit_ensembles,
        fit_trees,
        probabilities,
    )
    from skipjack.models.trees import TreeEnsemble

__all__ = [
    "BoostingOptions",
    "Loss",
    "TreeEnsemble",
    "fit_ensembles",
    "fit_trees",
    "probabilities",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "boosting": "BoostingOptions Loss fit_ensembles fit_trees probabilities",
        "trees": "TreeEnsemble",
    },
)
