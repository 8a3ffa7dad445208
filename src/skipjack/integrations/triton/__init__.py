"""Triton: `@skipjack.autotune`, and users' kernels as operations and solvers."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.triton.configs import autotune
    from skipjack.integrations.triton.kernel_adapter import triton_kernel
    from skipjack.integrations.triton.user_solver import is_user_kernel, load_user_kernel

__all__ = [
    "autotune",
    "is_user_kernel",
    "load_user_kernel",
    "triton_kernel",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "configs": "autotune",
        "kernel_adapter": "triton_kernel",
        "user_solver": "is_user_kernel load_user_kernel",
    },
)
