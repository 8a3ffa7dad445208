"""Libraries to compare with: NumPy, BLAS, oneDNN, cuBLAS, cuDNN, PyTorch, TVM."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.vendor.cpu import MklSolver, convolution_call
    from skipjack.solvers.vendor.gpu import CublasSolver
    from skipjack.solvers.vendor.torch_functions import (
        has_function,
        is_product,
        product_function,
        reduction_function,
        vector_function,
    )

__all__ = [
    "CublasSolver",
    "MklSolver",
    "convolution_call",
    "has_function",
    "is_product",
    "product_function",
    "reduction_function",
    "vector_function",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "cpu": "MklSolver convolution_call",
        "gpu": "CublasSolver",
        "torch_functions": (
            "has_function is_product product_function reduction_function vector_function"
        ),
    },
)
