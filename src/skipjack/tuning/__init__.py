"""The loop: ask, build, race, confirm, keep."""

import warnings
from typing import Any

from skipjack.tuning.build_only import Builder, BuildOptions, BuildResult, BuiltConfig, build
from skipjack.tuning.config_timer import ConfigTimer
from skipjack.tuning.context import measured_peaks
from skipjack.tuning.engine import Evaluator
from skipjack.tuning.finding import FindResult, FindStatus, RankedSolver
from skipjack.tuning.limits import Limits
from skipjack.tuning.loaded_candidate import LoadedCandidate
from skipjack.tuning.object_files import write_objects
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.result import Outcome, Speedup, TuneResult
from skipjack.tuning.study_run import check_memory
from skipjack.tuning.tuner import Tuner, find, make_budget, tune

__all__ = [
    "BuildOptions",
    "BuildResult",
    "Builder",
    "BuiltConfig",
    "ConfigTimer",
    "Evaluator",
    "FindResult",
    "FindStatus",
    "Limits",
    "LoadedCandidate",
    "Outcome",
    "Progress",
    "RankedSolver",
    "Speedup",
    "TuneOptions",
    "TuneResult",
    "Tuner",
    "build",
    "check_memory",
    "find",
    "make_budget",
    "measured_peaks",
    "tune",
    "write_objects",
]
_IN_RUNTIME = ("BoundKernel", "Kernels", "TunedKernel", "kernels", "lookup")
"""Names that were here before `skipjack.runtime`."""


def __getattr__(name: str) -> Any:
    if name not in _IN_RUNTIME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack import runtime

    warnings.warn(
        f"skipjack.tuning.{name} is skipjack.runtime.{name} now", DeprecationWarning, stacklevel=2
    )
    return getattr(runtime, name)
