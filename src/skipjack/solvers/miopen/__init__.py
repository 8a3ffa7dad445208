"""MIOpenDriver as a solver: each worker runs it with its own databases, kernel cache and GPU."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.miopen.driver import (
        DriverResult,
        DriverSetup,
        Finished,
        Invocation,
        SolverTime,
        drive,
        probe,
    )
    from skipjack.solvers.miopen.environment import worker_folders
    from skipjack.solvers.miopen.results import Installation, ProblemRecords, believable_record
    from skipjack.solvers.miopen.solver import Mode, find_driver

__all__ = [
    "DriverResult",
    "DriverSetup",
    "Finished",
    "Installation",
    "Invocation",
    "Mode",
    "ProblemRecords",
    "SolverTime",
    "believable_record",
    "drive",
    "find_driver",
    "probe",
    "worker_folders",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "driver": "DriverResult DriverSetup Finished Invocation SolverTime drive probe",
        "environment": "worker_folders",
        "results": "Installation ProblemRecords believable_record",
        "solver": "Mode find_driver",
    },
)
