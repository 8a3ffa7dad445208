"""Solvers: what can be built and run, one folder for each way of building."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.solvers.registry import (
        EXAMPLE_GPUS,
        building_solvers,
        driven_elsewhere,
        find_solver,
        for_gpus_alone,
        is_for,
        names,
        only_solvers,
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
    "only_solvers",
    "refusal",
    "refusal_of_all",
    "register",
    "solver_for",
    "solvers_for",
    "vendors_for",
]


def __getattr__(name: str) -> Any:
    """Load the registry when it is first used: schedules are imported without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack.solvers import registry

    return getattr(registry, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
