"""What predicts the times of candidates: features, tree ensembles and rankers, with NumPy alone."""

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
    from skipjack.models.candidates import CandidateFeatures, arranged, candidate_features
    from skipjack.models.features import (
        FEATURES_VERSION,
        MISSING,
        operation_group,
        problem_feature_names,
        problem_features,
    )
    from skipjack.models.trees import TreeEnsemble

__all__ = [
    "FEATURES_VERSION",
    "MISSING",
    "BoostingOptions",
    "CandidateFeatures",
    "Loss",
    "TreeEnsemble",
    "arranged",
    "candidate_features",
    "fit_ensembles",
    "fit_trees",
    "operation_group",
    "probabilities",
    "problem_feature_names",
    "problem_features",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "boosting": "BoostingOptions Loss fit_ensembles fit_trees probabilities",
        "candidates": "CandidateFeatures arranged candidate_features",
        "features": (
            "FEATURES_VERSION MISSING operation_group problem_feature_names problem_features"
        ),
        "trees": "TreeEnsemble",
    },
)
