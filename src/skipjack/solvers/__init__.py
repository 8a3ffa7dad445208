"""Solvers: what can be built and run, one folder for each way of building."""

from skipjack.solvers.registry import (
    building_solvers,
    find_solver,
    is_for,
    names,
    refusal,
    register,
    solver_for,
    solvers_for,
    vendors_for,
)

__all__ = [
    "building_solvers",
    "find_solver",
    "is_for",
    "names",
    "refusal",
    "register",
    "solver_for",
    "solvers_for",
    "vendors_for",
]
