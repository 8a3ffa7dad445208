"""Solvers: what can be built and run, one folder for each way of building."""

from skipjack.solvers.registry import (
    EXAMPLE_GPUS,
    building_solvers,
    driven_elsewhere,
    find_solver,
    for_gpus_alone,
    is_for,
    names,
    refusal,
    refusal_of_all,
    register,
    solver_for,
    solvers_for,
    vendors_for,
)

__all__ = [
    "EXAMPLE_GPUS",
    "building_solvers",
    "driven_elsewhere",
    "find_solver",
    "for_gpus_alone",
    "is_for",
    "names",
    "refusal",
    "refusal_of_all",
    "register",
    "solver_for",
    "solvers_for",
    "vendors_for",
]
