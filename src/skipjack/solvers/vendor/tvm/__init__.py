"""TVM's MetaSchedule as a library to compare with, from an environment of its own.

::

    metaschedule  the script that TVM's Python runs: tunes products, writes kernels
    tuning        finds that Python and runs the script
    kernel        loads and calls such a kernel without TVM
    solver        what the registry knows
"""

from skipjack.solvers.vendor.tvm.kernel import TvmRecord, read_record
from skipjack.solvers.vendor.tvm.solver import KERNELS_VARIABLE, TvmSolver
from skipjack.solvers.vendor.tvm.tuning import (
    ENVIRONMENT,
    HOW_TO_GET,
    Metaschedule,
    TuningPlan,
    find_python,
)

__all__ = [
    "ENVIRONMENT",
    "HOW_TO_GET",
    "KERNELS_VARIABLE",
    "Metaschedule",
    "TuningPlan",
    "TvmRecord",
    "TvmSolver",
    "find_python",
    "read_record",
]
