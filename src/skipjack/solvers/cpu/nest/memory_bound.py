"""First schedules for nests whose limit is memory or a cache.

These are maps, reductions of one array, and products of a large matrix with a thin one. What counts
is to read arrays in their own order, to have a few vectors or rows on their way at a time, and to
write past the caches what does not fit into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from skipjack.core.nest import Access, Nest
from skipjack.solvers.cpu.nest.register_tile import Pivot
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, long_variables, normalize

_COPIES = (4, 8, 16, 2, 1)
_LEAST_HALF = 4
"""Lanes below which a vector is not halved."""
_ROWS = (6, 4, 8, 2)
"""Rows on their way at once in a sum of rows."""
_SHORT_ROW = 16
"""Vectors up to which a row is short."""
_TOGETHER = ((4, 1), (2, 4), (2, 2), (4, 2), (8, 1), (16, 1), (4, 4))
"""Rows at a time and vectors of each, in the order to try them."""
_IN_TURN = ((4, 4), (8, 4), (4, 2))
"""Rows that are added up one after the other before the next place is, likewise."""
_STRIPS = (4, 2, 8)
"""Vectors of each of these rows."""
_FEW = 64
"""Rows of the result up to which it is thin."""
_RESULT_ROWS = 8
"""Rows of the result that are computed at a time."""
_LARGE = 1 << 16
"""Elements from which a matrix is worth reading in its own order."""
_THIN_ROWS = (8, 12, 6, 16, 4)
_THIN_ROWS_OF_SEVERAL = (16, 8, 12, 4)
"""Rows that are read side by side, for one or two rows of the result and for more."""
_THIN_WIDTHS = (4, 2, 1, 8)
"""Vectors of each at a time."""


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Some vectors of a variable in a row, possibly narrower than those of the machine."""

    lanes: int
    copies: int

    def loops(self, name: str, mark: Mark, full: int) -> tuple[int, list[Loop]]:
        """The step of the loop around them, and the loops in the suffix.

        A loop of its own over the vectors makes them narrower, and gives each an accumulator.
        """
        several: list[Loop] = []
        if self.copies > 1 and (self.lanes != full or mark is Mark.ACCUMULATE):
            kind = Mark.ACCUMULATE if mark is Mark.ACCUMULATE else Mark.UNROLL
            several = [Loop(name, self.lanes, kind)]
        last = Mark.VECTORIZE if mark is Mark.ACCUMULATE else mark
        return self.copies * self.lanes, [*several, Loop(name, 1, last)]


def map_schedules(nest: Nest, pivot: Pivot, streaming: bool) -> Iterator[Schedule]:
    """Every array in its own order, some vectors at a time; whole vectors and halves in turn.

    Some cores move data beyond the nearest caches faster in narrower vectors.
    """
    if not pivot.vectorized:
        return
    marks = (Mark.STREAM, Mark.VECTORIZE) if streaming else (Mark.VECTORIZE,)
    names = [*(name for name in long_variables(nest) if name != pivot.variable), pivot.variable]
    for copies in _COPIES:
        for lanes in _widths(pivot):
            for mark in marks:
                step, suffix = _Vectors(lanes, copies).loops(pivot.variable, mark, pivot.lanes)
                outer = [Loop(name, step if name == pivot.variable else 1) for name in names]
                yield normalize([*outer, *suffix], nest)
    if len(names) > 1 and nest.extent(pivot.variable) < _SHORT_ROW * pivot.lanes:
        yield from _short_rows(nest, pivot, names)


def _short_rows(nest: Nest, pivot: Pivot, names: list[str]) -> Iterator[Schedule]:
    """Several whole rows at a time."""
    for lanes in _widths(pivot):
        for rows in (4, 8, 16, 2):
            around = [Loop(name, rows if name == names[-2] else 1) for name in names[:-1]]
            narrow = [Loop(pivot.variable, lanes, Mark.UNROLL)] if lanes < pivot.lanes else []
            suffix = [Loop(names[-2], 1, Mark.UNROLL), *narrow]
            yield normalize([*around, *suffix, Loop(pivot.variable, 1, Mark.VECTORIZE)], nest)


def reduction_schedules(nest: Nest, pivot: Pivot) -> Iterator[Schedule]:
    """Rows side by side where rows are added up, several accumulators where a row is."""
    reduced = [name for name in long_variables(nest) if name in nest.reduction_loops]
    if not pivot.vectorized or not reduced:
        return
    if pivot.reduced:
        yield from _along_rows(nest, pivot)
    else:
        yield from _across_rows(nest, pivot, reduced[-1])


def _along_rows(nest: Nest, pivot: Pivot) -> Iterator[Schedule]:
    """Each row with several accumulators, in the order of memory or with what is kept outermost.

    Rows are also taken several at a time: early where they are short, or where rows of several
    places are added up.
    """
    name = pivot.variable
    others = tuple(each for each in long_variables(nest) if each != name)
    kept = [each for each in others if each not in nest.reduction_loops]
    summed = [each for each in others if each in nest.reduction_loops]
    kept_first = (*kept, *summed)
    alone = [_Rows("", 1, copies) for copies in (2, 4, 8, 1)]
    added = [_Rows(summed[-1], *way, unrolled=False) for way in _IN_TURN] if summed else []
    added += [_Rows(summed[-1], *way) for way in _TOGETHER] if summed else []
    side_by_side = [_Rows(kept[-1], *way) for way in _TOGETHER] if kept else []
    short = nest.extent(name) < _SHORT_ROW * pivot.lanes
    groups = (side_by_side, alone, added) if short else (alone, added, side_by_side)
    ways = [(others, rows) for group in groups for rows in group]
    if kept_first != others:
        ways[9:9] = [(kept_first, rows) for rows in (*alone, *side_by_side)]
    for order, rows in ways:
        step, suffix = _Vectors(pivot.lanes, rows.copies).loops(name, Mark.ACCUMULATE, pivot.lanes)
        outer = [Loop(each, rows.count if each == rows.variable else 1) for each in order]
        if not rows.unrolled:
            yield normalize([*outer, Loop(rows.variable), Loop(name, step), *suffix], nest)
            continue
        unrolled = [Loop(rows.variable, 1, Mark.UNROLL)] if rows.variable else []
        yield normalize([*outer, Loop(name, step), *unrolled, *suffix], nest)


@dataclass(frozen=True, slots=True)
class _Rows:
    """How many values of a variable are taken at a time, and vectors of each."""

    variable: str
    count: int
    copies: int
    unrolled: bool = True
    """Whether they are taken side by side; else one after the other."""


def _across_rows(nest: Nest, pivot: Pivot, summed: str) -> Iterator[Schedule]:
    """Loops in the order of memory, some rows at a time in strips of some vectors."""
    names = long_variables(nest)
    most, width = nest.extent(summed), -(-nest.extent(pivot.variable) // pivot.lanes)
    for strip in sorted(_STRIPS, key=lambda strip: strip > width):
        for rows in _ROWS:
            steps = {summed: min(rows, most), pivot.variable: strip * pivot.lanes}
            outer = [Loop(name, steps.get(name, 1)) for name in names]
            suffix = [Loop(summed, 1, Mark.UNROLL), Loop(pivot.variable, 1, Mark.VECTORIZE)]
            yield normalize([*outer, *suffix], nest)


def _widths(pivot: Pivot) -> tuple[int, ...]:
    half = pivot.lanes // 2
    return (half, pivot.lanes) if half >= _LEAST_HALF else (pivot.lanes,)


def thin_schedules(nest: Nest, pivot: Pivot, registers: int) -> Iterator[Schedule]:
    """For products that read a large matrix for a few rows of the result; none for others.

    Every element of the large matrix is used a few times at most, so that reading it is the limit.
    Some of its rows are read side by side, each front to back, while the few rows of the result
    stay in the nearest cache and are added to again and again.
    """
    reduced = [name for name in long_variables(nest) if name in nest.reduction_loops]
    if len(reduced) != 1 or pivot.reduced or not pivot.vectorized or len(nest.inputs) != 2:
        return
    (summed,) = reduced
    outputs = [name for name in long_variables(nest) if name not in (summed, pivot.variable)]
    few = prod(nest.extent(name) for name in outputs)
    if few > _FEW or not any(_is_large(access, pivot, summed, nest) for access in nest.inputs):
        return
    blocks = {name: _even_block(nest.extent(name)) for name in outputs}
    together = prod(blocks.values())
    widths = [width for width in _THIN_WIDTHS if together * width + width + 1 <= registers]
    for width in widths:
        for rows in _THIN_ROWS if together < 3 else _THIN_ROWS_OF_SEVERAL:
            around = [Loop(name, block) for name, block in blocks.items()]
            outer = [Loop(summed, rows), *around, Loop(pivot.variable, width * pivot.lanes)]
            copies = [Loop(name, 1, Mark.UNROLL) for name in (summed, *outputs)]
            vectors = Loop(pivot.variable, 1, Mark.VECTORIZE)
            yield normalize([*outer, *copies, vectors], nest)


def _even_block(extent: int) -> int:
    """Blocks of about the same size."""
    return -(-extent // -(-extent // _RESULT_ROWS))


def _is_large(access: Access, pivot: Pivot, summed: str, nest: Nest) -> bool:
    """Whether an input is read in vectors along the sum and is large."""
    size = nest.extent(pivot.variable) * nest.extent(summed)
    return access.stride(pivot.variable) == 1 and access.stride(summed) > 1 and size > _LARGE
