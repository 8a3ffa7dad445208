"""Matrix products on CPUs.

The packed product is the main path: `product` says what is computed and lists the kernel's slots,
`tile` generates the register tile, `cache_blocks` the loops around it, `stage` the whole module,
and `solver` has the search space, the cost estimate and the solver. Convolutions use the packed
product as a stage. `microkernel` (with `microkernel_tile`) is one small kernel for every shape;
`thin_solver` (with `thin_code`) is for products of few rows, which are limited by reading one
operand.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.gemm.product import (
        ACCUMULATE,
        GemmProduct,
        Groups,
        Operand,
        Slices,
        parse_tile,
    )
    from skipjack.solvers.cpu.gemm.solver import PackedSpace, choice_space
    from skipjack.solvers.cpu.gemm.stage import product_stage
    from skipjack.solvers.cpu.gemm.tile import PackedRecipe, TileFunction

__all__ = [
    "ACCUMULATE",
    "GemmProduct",
    "Groups",
    "Operand",
    "PackedRecipe",
    "PackedSpace",
    "Slices",
    "TileFunction",
    "choice_space",
    "parse_tile",
    "product_stage",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "product": "ACCUMULATE GemmProduct Groups Operand Slices parse_tile",
        "solver": "PackedSpace choice_space",
        "stage": "product_stage",
        "tile": "PackedRecipe TileFunction",
    },
)
