"""Strided copies with bounds: padding, changes of layout, im2col.

`description` says what is copied (`Copy`); `plan` simplifies it to few loops and chooses how the
innermost ones are copied; `stage` writes the loops and offers the copy as a stage of a kernel;
`inner` writes the innermost loops in one of four ways (single elements, rows, transposed tiles,
interleaved rows) with the vector loads of `loads` and the contiguous runs of `runs`.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.copy.description import Bound, Copy, CopyLoop
    from skipjack.solvers.cpu.copy.stage import OUT_SLOT, SOURCE_SLOT, copy_stage

__all__ = [
    "OUT_SLOT",
    "SOURCE_SLOT",
    "Bound",
    "Copy",
    "CopyLoop",
    "copy_stage",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "description": "Bound Copy CopyLoop",
        "stage": "OUT_SLOT SOURCE_SLOT copy_stage",
    },
)
