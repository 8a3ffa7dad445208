"""Kernels are built and verified beside the program: in a thread, for GPUs in other processes."""

from typing import TYPE_CHECKING, Any

from skipjack.runtime.checks.beside import (
    KernelCheck,
    StillCheckingError,
    checked_beside,
    forget_checks,
)

if TYPE_CHECKING:
    from skipjack.runtime.checks.on_gpu import build_for_gpu, fault_on_gpu

__all__ = [
    "KernelCheck",
    "StillCheckingError",
    "build_for_gpu",
    "checked_beside",
    "fault_on_gpu",
    "forget_checks",
]


def __getattr__(name: str) -> Any:
    """Load what starts processes where a GPU's kernel is built."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack.runtime.checks import on_gpu

    return getattr(on_gpu, name)
