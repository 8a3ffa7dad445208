"""Calls of this process as candidates of a study: `tune_call` runs one on the study engine."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.tuning.calls.evaluator import (
        CallContext,
        CallEvaluator,
        CallSession,
        CallsLostError,
    )
    from skipjack.tuning.calls.study import CallResult, CallSearch, tune_call
    from skipjack.tuning.study import BankAccess, NoBank

__all__ = [
    "BankAccess",
    "CallContext",
    "CallEvaluator",
    "CallResult",
    "CallSearch",
    "CallSession",
    "CallsLostError",
    "NoBank",
    "tune_call",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "evaluator": "CallContext CallEvaluator CallSession CallsLostError",
        "study": "CallResult CallSearch tune_call",
        "skipjack.tuning.study": "BankAccess NoBank",
    },
)
