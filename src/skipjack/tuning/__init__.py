"""The loop: ask, build, race, confirm, keep."""

from skipjack.tuning.kernel import BoundKernel, TunedKernel
from skipjack.tuning.lookup import lookup
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.result import Outcome, Speedup, TuneResult
from skipjack.tuning.tuner import Tuner, make_budget, tune

__all__ = [
    "BoundKernel",
    "Outcome",
    "Progress",
    "Speedup",
    "TuneOptions",
    "TuneResult",
    "TunedKernel",
    "Tuner",
    "lookup",
    "make_budget",
    "tune",
]
