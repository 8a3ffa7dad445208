"""From Triton functions to artifacts: kernel specs, sources, compilation, and the base classes of
solvers.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.gpu.triton.compilation import POINTER_RANGE, compiler_name
    from skipjack.solvers.gpu.triton.kernel_source import kernel_text
    from skipjack.solvers.gpu.triton.solver import (
        KernelStage,
        LaunchArgument,
        LaunchArguments,
        StagedGpuSolver,
        TritonSolver,
        array,
        integer,
        tma_array,
    )
    from skipjack.solvers.gpu.triton.spec import (
        EARLY_LAUNCH,
        LONGEST,
        TRITON_TYPES,
        Constant,
        KernelSpec,
        descriptor_type,
        integer_type,
        pointer_type,
    )

__all__ = [
    "EARLY_LAUNCH",
    "LONGEST",
    "POINTER_RANGE",
    "TRITON_TYPES",
    "Constant",
    "KernelSpec",
    "KernelStage",
    "LaunchArgument",
    "LaunchArguments",
    "StagedGpuSolver",
    "TritonSolver",
    "array",
    "compilation",
    "compiler_name",
    "descriptor_type",
    "integer",
    "integer_type",
    "kernel_text",
    "pointer_type",
    "tma_array",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "compilation": "POINTER_RANGE compiler_name",
        "kernel_source": "kernel_text",
        "solver": (
            "KernelStage LaunchArgument LaunchArguments StagedGpuSolver TritonSolver array "
            "integer tma_array"
        ),
        "spec": (
            "Constant EARLY_LAUNCH KernelSpec LONGEST TRITON_TYPES descriptor_type integer_type "
            "pointer_type"
        ),
    },
)
