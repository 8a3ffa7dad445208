"""Predicts the times of candidates: features, trees, rankers, heuristics, with NumPy alone."""

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
    from skipjack.models.files import read_model, write_model
    from skipjack.models.heuristic import (
        SURE,
        TRIED,
        ConfigHeuristic,
        PortfolioMember,
        RankedConfig,
        RankedMember,
        heuristic_features,
        kind_of,
    )
    from skipjack.models.installed import (
        HEURISTIC_FILE,
        MODELS,
        RANKER_FILE,
        installed_heuristic,
        installed_ranker,
        model_file,
    )
    from skipjack.models.ranker import CandidateScore, Ranker, device_key, solver_features
    from skipjack.models.symmetric import SymmetricOptions, SymmetricTrees, fit_symmetric
    from skipjack.models.trees import TreeEnsemble

__all__ = [
    "FEATURES_VERSION",
    "HEURISTIC_FILE",
    "MISSING",
    "MODELS",
    "RANKER_FILE",
    "SURE",
    "TRIED",
    "BoostingOptions",
    "CandidateFeatures",
    "CandidateScore",
    "ConfigHeuristic",
    "Loss",
    "PortfolioMember",
    "RankedConfig",
    "RankedMember",
    "Ranker",
    "SymmetricOptions",
    "SymmetricTrees",
    "TreeEnsemble",
    "arranged",
    "candidate_features",
    "device_key",
    "fit_ensembles",
    "fit_symmetric",
    "fit_trees",
    "heuristic_features",
    "installed_heuristic",
    "installed_ranker",
    "kind_of",
    "model_file",
    "operation_group",
    "probabilities",
    "problem_feature_names",
    "problem_features",
    "read_model",
    "solver_features",
    "write_model",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "boosting": "BoostingOptions Loss fit_ensembles fit_trees probabilities",
        "candidates": "CandidateFeatures arranged candidate_features",
        "features": (
            "FEATURES_VERSION MISSING operation_group problem_feature_names problem_features"
        ),
        "files": "read_model write_model",
        "heuristic": (
            "SURE TRIED ConfigHeuristic PortfolioMember RankedConfig RankedMember "
            "heuristic_features kind_of"
        ),
        "installed": (
            "HEURISTIC_FILE MODELS RANKER_FILE installed_heuristic installed_ranker model_file"
        ),
        "ranker": "CandidateScore Ranker device_key solver_features",
        "symmetric": "SymmetricOptions SymmetricTrees fit_symmetric",
        "trees": "TreeEnsemble",
    },
)
