"""Who answers a lookup that is not remembered: one step after another, until one has an answer."""

from skipjack.runtime.answers.agreed import agreed_answer
from skipjack.runtime.answers.agreement import Agreement, agreement_of
from skipjack.runtime.answers.explicit import explicit_answer
from skipjack.runtime.answers.order import Explanation, LookupDecision, StepRecord, decide
from skipjack.runtime.answers.pinned import pinned_answer
from skipjack.runtime.answers.proposals import Heuristic, ProposedConfig, register_heuristic
from skipjack.runtime.answers.question import LookupAnswer, Question

__all__ = [
    "Agreement",
    "Explanation",
    "Heuristic",
    "LookupAnswer",
    "LookupDecision",
    "ProposedConfig",
    "Question",
    "StepRecord",
    "agreed_answer",
    "agreement_of",
    "decide",
    "explicit_answer",
    "pinned_answer",
    "register_heuristic",
]
