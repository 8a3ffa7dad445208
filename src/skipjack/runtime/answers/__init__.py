"""Who answers a lookup that is not remembered: one step after another, until one has an answer."""

from skipjack.runtime.answers.explicit import explicit_answer
from skipjack.runtime.answers.order import Explanation, LookupDecision, StepRecord, decide
from skipjack.runtime.answers.proposals import Heuristic, ProposedConfig, register_heuristic
from skipjack.runtime.answers.question import LookupAnswer, Question

__all__ = [
    "Explanation",
    "Heuristic",
    "LookupAnswer",
    "LookupDecision",
    "ProposedConfig",
    "Question",
    "StepRecord",
    "decide",
    "explicit_answer",
    "register_heuristic",
]
