"""The steps of a lookup that is not remembered: each has an answer, or a reason why it has none."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.answers.agreement import Agreement, agreed_answer, agreement_of
    from skipjack.runtime.answers.explicit import explicit_answer, pinned_answer
    from skipjack.runtime.answers.order import Explanation, LookupDecision, StepRecord, decide
    from skipjack.runtime.answers.proposals import Heuristic, ProposedConfig, register_heuristic
    from skipjack.runtime.answers.question import LookupAnswer, Question
    from skipjack.runtime.answers.trained import (
        TrainedProposal,
        model_directories,
        trained_proposal,
    )

__all__ = [
    "Agreement",
    "Explanation",
    "Heuristic",
    "LookupAnswer",
    "LookupDecision",
    "ProposedConfig",
    "Question",
    "StepRecord",
    "TrainedProposal",
    "agreed_answer",
    "agreement_of",
    "decide",
    "explicit_answer",
    "model_directories",
    "pinned_answer",
    "register_heuristic",
    "trained_proposal",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "agreement": "Agreement agreed_answer agreement_of",
        "explicit": "explicit_answer pinned_answer",
        "order": "Explanation LookupDecision StepRecord decide",
        "proposals": "Heuristic ProposedConfig register_heuristic",
        "question": "LookupAnswer Question",
        "trained": "TrainedProposal model_directories trained_proposal",
    },
)
