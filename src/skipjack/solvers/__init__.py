"""Solvers: ways to compute an operation on a device, with one folder for each kind of solver."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.core import ABI
    from skipjack.solvers.adapted_configs import PROPOSALS, AdaptedConfigs
    from skipjack.solvers.identity import build_identity, definition_digest, source_key
    from skipjack.solvers.pins import (
        named_pins,
        pinned_solvers,
        pinned_space,
        read_pins,
        spelled_pins,
    )
    from skipjack.solvers.python_source import canonicalize, mentioned_names, read_module
    from skipjack.solvers.registry import (
        EXAMPLE_GPUS,
        all_solvers,
        building_for,
        building_solvers,
        driver_refusal,
        find_solver,
        installed,
        is_known,
        names,
        needs_gpu,
        only_built_in,
        only_solvers,
        refusal,
        refusal_of_all,
        register,
        solver_for,
        solvers_for,
        supports_device,
        vendors_for,
    )
    from skipjack.solvers.solver import (
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
        tolerance_factor_of,
    )

__all__ = [
    "ABI",
    "EXAMPLE_GPUS",
    "PROPOSALS",
    "AdaptedConfigs",
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
    "all_solvers",
    "build_identity",
    "building_for",
    "building_solvers",
    "canonicalize",
    "definition_digest",
    "driver_refusal",
    "find_solver",
    "installed",
    "is_known",
    "mentioned_names",
    "named_pins",
    "names",
    "needs_gpu",
    "only_built_in",
    "only_solvers",
    "pinned_solvers",
    "pinned_space",
    "read_module",
    "read_pins",
    "refusal",
    "refusal_of_all",
    "register",
    "solver_for",
    "solvers_for",
    "source_key",
    "spelled_pins",
    "supports_device",
    "tolerance_factor_of",
    "vendors_for",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.core": "ABI",
        "identity": "build_identity definition_digest source_key",
        "adapted_configs": "AdaptedConfigs PROPOSALS",
        "pins": "named_pins pinned_solvers pinned_space read_pins spelled_pins",
        "python_source": "canonicalize mentioned_names read_module",
        "registry": (
            "EXAMPLE_GPUS all_solvers building_for building_solvers driver_refusal find_solver "
            "installed is_known names needs_gpu only_built_in only_solvers refusal "
            "refusal_of_all register solver_for solvers_for supports_device vendors_for"
        ),
        "solver": (
            "Blob BuildingSolver DrivingSolver GpuFunctionSolver GpuVendorSolver "
            "ImportingSolver LooseSolver NativeVendorSolver RacingSolver ResultCall Slot Solver "
            "Source SourceAware VendorSolver tolerance_factor_of"
        ),
    },
)
