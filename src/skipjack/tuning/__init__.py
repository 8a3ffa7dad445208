"""The tuner: what `tune`, `find` and `build` do, on the study engine of `skipjack.tuning.study`."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.tuning.build_only import Builder, BuildOptions, BuildResult, BuiltConfig, build
    from skipjack.tuning.config_timer import ConfigTimer, TriedKernel, try_kernels
    from skipjack.tuning.deprecated_names import BoundKernel, Kernels, TunedKernel, kernels
    from skipjack.tuning.find_result import NOT_APPLICABLE, OK, FindResult, FindStatus, RankedSolver
    from skipjack.tuning.find_run import rank_all
    from skipjack.tuning.object_files import write_objects
    from skipjack.tuning.study import (
        Evaluator,
        Limits,
        LoadedCandidate,
        Speedup,
        TuneOptions,
        TuneOutcome,
        TuneProgress,
        TuneResult,
        check_memory,
        measured_peaks,
    )
    from skipjack.tuning.tuner import Tuner, find, make_budget, tune

__all__ = [
    "NOT_APPLICABLE",
    "OK",
    "BoundKernel",
    "BuildOptions",
    "BuildResult",
    "Builder",
    "BuiltConfig",
    "ConfigTimer",
    "Evaluator",
    "FindResult",
    "FindStatus",
    "Kernels",
    "Limits",
    "LoadedCandidate",
    "RankedSolver",
    "Speedup",
    "TriedKernel",
    "TuneOptions",
    "TuneOutcome",
    "TuneProgress",
    "TuneResult",
    "TunedKernel",
    "Tuner",
    "build",
    "check_memory",
    "find",
    "kernels",
    "make_budget",
    "measured_peaks",
    "rank_all",
    "try_kernels",
    "tune",
    "write_objects",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "build_only": "BuildOptions BuildResult Builder BuiltConfig build",
        "config_timer": "ConfigTimer TriedKernel try_kernels",
        "deprecated_names": "BoundKernel Kernels TunedKernel kernels",
        "find_result": "FindResult FindStatus NOT_APPLICABLE OK RankedSolver",
        "find_run": "rank_all",
        "object_files": "write_objects",
        "study": (
            "Evaluator Limits LoadedCandidate Speedup TuneOptions TuneOutcome TuneProgress "
            "TuneResult check_memory measured_peaks"
        ),
        "tuner": "Tuner find make_budget tune",
    },
)
