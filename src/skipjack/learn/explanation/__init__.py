"""What models learned: which features mattered, how, and what was lost on problems held out."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.explanation.families import family_of
    from skipjack.learn.explanation.features import (
        FeatureEffect,
        FeatureShare,
        feature_effects,
        feature_shares,
    )
    from skipjack.learn.explanation.pruning import KEPT, KeptQuality, Order, kept_qualities

__all__ = [
    "KEPT",
    "FeatureEffect",
    "FeatureShare",
    "KeptQuality",
    "Order",
    "family_of",
    "feature_effects",
    "feature_shares",
    "kept_qualities",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "families": "family_of",
        "features": "FeatureEffect FeatureShare feature_effects feature_shares",
        "pruning": "KEPT KeptQuality Order kept_qualities",
    },
)
