"""Calls of this process as candidates of a study: `tune_call` runs one on the study engine."""

from skipjack.tuning.calls.evaluator import (
    CallContext,
    CallEvaluator,
    CallSession,
    CallsLostError,
)
from skipjack.tuning.calls.study import CallSearch, CallVerdict, tune_call
from skipjack.tuning.context import BankAccess, NoBank

__all__ = [
    "BankAccess",
    "CallContext",
    "CallEvaluator",
    "CallSearch",
    "CallSession",
    "CallVerdict",
    "CallsLostError",
    "NoBank",
    "tune_call",
]
