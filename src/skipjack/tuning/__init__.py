"""The loop: ask, build, race, confirm, keep."""

from skipjack.native.bound import BoundKernel
from skipjack.tuning.build_only import Builder, BuildOptions, build
from skipjack.tuning.build_result import BuildResult, BuiltConfig
from skipjack.tuning.find_result import FindResult, FindStatus, RankedSolver
from skipjack.tuning.kernel import TunedKernel
from skipjack.tuning.kernel_file import Kernels, kernels
from skipjack.tuning.lookup import lookup
from skipjack.tuning.object_files import write_objects
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.result import Outcome, Speedup, TuneResult
from skipjack.tuning.tuner import Tuner, find, make_budget, tune

__all__ = [
    "BoundKernel",
    "BuildOptions",
    "BuildResult",
    "Builder",
    "BuiltConfig",
    "FindResult",
    "FindStatus",
    "Kernels",
    "Outcome",
    "Progress",
    "RankedSolver",
    "Speedup",
    "TuneOptions",
    "TuneResult",
    "TunedKernel",
    "Tuner",
    "build",
    "find",
    "kernels",
    "lookup",
    "make_budget",
    "tune",
    "write_objects",
]
