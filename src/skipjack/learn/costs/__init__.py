"""Estimates of the cost of schedules: their features, and a model over them."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.costs.features import CostFacts, cost_facts, cost_features, log_scale
    from skipjack.learn.costs.model import MODEL_FILE, TreeCostModel, read_model, shipped_model

__all__ = [
    "MODEL_FILE",
    "CostFacts",
    "TreeCostModel",
    "cost_facts",
    "cost_features",
    "log_scale",
    "read_model",
    "shipped_model",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "features": "CostFacts cost_facts cost_features log_scale",
        "model": "MODEL_FILE TreeCostModel read_model shipped_model",
    },
)
