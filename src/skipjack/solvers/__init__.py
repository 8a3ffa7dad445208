"""Solvers: what can be built and run, one folder for each way of building."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.solvers.identity import (
        build_identity,
        definition_digest,
        source_key,
    )
    from skipjack.solvers.pinning import (
        named_pins,
        pinned_solvers,
        pinned_space,
        read_pins,
        spelled_pins,
    )
    from skipjack.solvers.registry import (
        EXAMPLE_GPUS,
        building_for,
        building_solvers,
        driven_elsewhere,
        every,
        find_solver,
        for_gpus_alone,
        installed,
        is_for,
        is_known,
        names,
        only_built_in,
        only_solvers,
        refusal,
        refusal_of_all,
        register,
        solver_for,
        solvers_for,
        vendors_for,
    )
    from skipjack.solvers.solver import (
        ABI,
        Blob,
        BuildingSolver,
        DrivingSolver,
        GpuFunctionSolver,
        GpuVendorSolver,
        ImportingSolver,
        LooseSolver,
        NativeVendorSolver,
        RacingSolver,
        ResultCall,
        Slot,
        Solver,
        Source,
        SourceAware,
        VendorSolver,
        slack_of,
    )

__all__ = [
    "ABI",
    "EXAMPLE_GPUS",
    "Blob",
    "BuildingSolver",
    "DrivingSolver",
    "GpuFunctionSolver",
    "GpuVendorSolver",
    "ImportingSolver",
    "LooseSolver",
    "NativeVendorSolver",
    "RacingSolver",
    "ResultCall",
    "Slot",
    "Solver",
    "Source",
    "SourceAware",
    "VendorSolver",
    "build_identity",
    "building_for",
    "building_solvers",
    "definition_digest",
    "driven_elsewhere",
    "every",
    "find_solver",
    "for_gpus_alone",
    "installed",
    "is_for",
    "is_known",
    "named_pins",
    "names",
    "only_built_in",
    "only_solvers",
    "pinned_solvers",
    "pinned_space",
    "read_pins",
    "refusal",
    "refusal_of_all",
    "register",
    "slack_of",
    "solver_for",
    "solvers_for",
    "source_key",
    "spelled_pins",
    "vendors_for",
]
_MODULES = ("solver", "registry", "identity", "pinning")
"""Where the names are, in the order in which they are looked for: the cheapest to load first."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used: schedules are imported without any of it."""
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"skipjack.solvers.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
