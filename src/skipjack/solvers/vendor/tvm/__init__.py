"""TVM's MetaSchedule as a library to compare with: a script for TVM's Python, and its kernels."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.vendor.tvm.solver import (
        KERNELS_VARIABLE,
        TvmRecord,
        TvmSolver,
        read_record,
    )
    from skipjack.solvers.vendor.tvm.tuner import (
        ENVIRONMENT,
        INSTALL_HINT,
        Metaschedule,
        TuningPlan,
        find_python,
    )

__all__ = [
    "ENVIRONMENT",
    "INSTALL_HINT",
    "KERNELS_VARIABLE",
    "Metaschedule",
    "TuningPlan",
    "TvmRecord",
    "TvmSolver",
    "find_python",
    "read_record",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "solver": "KERNELS_VARIABLE TvmRecord TvmSolver read_record",
        "tuner": "ENVIRONMENT INSTALL_HINT Metaschedule TuningPlan find_python",
    },
)
