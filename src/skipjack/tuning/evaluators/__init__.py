"""Evaluators of the study engine (`skipjack.tuning.engine.Evaluator`) that time kernels."""

from skipjack.tuning.evaluators.kernels import CandidateEvaluator, RoundBuilder, RoundTimer
from skipjack.tuning.evaluators.racing import LoadingSession, RacingEvaluator, TimingContext

__all__ = [
    "CandidateEvaluator",
    "LoadingSession",
    "RacingEvaluator",
    "RoundBuilder",
    "RoundTimer",
    "TimingContext",
]
