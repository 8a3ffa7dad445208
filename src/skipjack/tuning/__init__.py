"""The loop: ask, build, race, confirm, keep."""

from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.result import Outcome, Speedup, TuneResult
from skipjack.tuning.tuner import Tuner, make_budget, tune

__all__ = [
    "Outcome",
    "Progress",
    "Speedup",
    "TuneOptions",
    "TuneResult",
    "Tuner",
    "make_budget",
    "tune",
]
