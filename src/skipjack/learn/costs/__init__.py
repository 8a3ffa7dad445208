"""What schedules cost, estimated: features of schedules, and a model over them."""

from skipjack.learn.costs.features import (
    CostFacts,
    cost_facts,
    cost_features,
    log_scale,
)
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
