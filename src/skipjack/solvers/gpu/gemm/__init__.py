"""Matrix products on GPUs."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.gpu.gemm.pointers import AddressMatmul
    from skipjack.solvers.gpu.gemm.tma import DescriptorMatmul

__all__ = [
    "AddressMatmul",
    "DescriptorMatmul",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "pointers": "AddressMatmul",
        "tma": "DescriptorMatmul",
    },
)
