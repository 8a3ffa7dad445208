"""First schedules for products that read a large matrix for a few rows of the result only.

Every element of the large matrix is used a few times at most, so that reading it is the limit. Some
of its rows are read side by side, each front to back, while the few rows of the result stay in the
nearest cache and are added to again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from skipjack.core.nest import Access, Nest
from skipjack.solvers.cpu.nest.composing import long_variables
from skipjack.solvers.cpu.nest.register_tile import Pivot
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, normalize

_FEW = 64
"""Rows of the result up to which it is thin."""
_TOGETHER = 8
"""Rows of the result that are computed at a time."""
_LARGE = 1 << 16
"""Elements from which a matrix is worth reading in its own order."""
_ROWS = (8, 12, 6, 16, 4)
_ROWS_OF_SEVERAL = (16, 8, 12, 4)
"""Rows that are read side by side, for one or two rows of the result and for more."""
_WIDTHS = (4, 2, 1, 8)
"""Vectors of each at a time."""


def thin_schedules(nest: Nest, pivot: Pivot, registers: int) -> Iterator[Schedule]:
    """None where the product is not thin."""
    reduced = [name for name in long_variables(nest) if name in nest.reduction_loops]
    if len(reduced) != 1 or pivot.reduced or not pivot.vectorized or len(nest.inputs) != 2:
        return
    (summed,) = reduced
    outputs = [name for name in long_variables(nest) if name not in (summed, pivot.variable)]
    few = prod(nest.extent(name) for name in outputs)
    if few > _FEW or not any(_is_large(access, pivot, summed, nest) for access in nest.inputs):
        return
    blocks = {name: _block(nest.extent(name)) for name in outputs}
    together = prod(blocks.values())
    widths = [width for width in _WIDTHS if together * width + width + 1 <= registers]
    for width in widths:
        for rows in _ROWS if together < 3 else _ROWS_OF_SEVERAL:
            around = [Loop(name, block) for name, block in blocks.items()]
            outer = [Loop(summed, rows), *around, Loop(pivot.variable, width * pivot.lanes)]
            copies = [Loop(name, 1, Mark.UNROLL) for name in (summed, *outputs)]
            vectors = Loop(pivot.variable, 1, Mark.VECTORIZE)
            yield normalize([*outer, *copies, vectors], nest)


def _block(extent: int) -> int:
    """Blocks of about the same size."""
    return -(-extent // -(-extent // _TOGETHER))


def _is_large(access: Access, pivot: Pivot, summed: str, nest: Nest) -> bool:
    """Whether an input is read in vectors along the sum and is large."""
    size = nest.extent(pivot.variable) * nest.extent(summed)
    return access.stride(pivot.variable) == 1 and access.stride(summed) > 1 and size > _LARGE
