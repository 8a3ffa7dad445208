"""Schedules that are good before anything was measured, best first.

Every schedule here is a register tile (`register_tile`) with loops around it. Tiles are ordered by
a cost model; the ways to put loops around a tile (order, unrolled reduction, blocked reduction)
are variants that the model cannot tell apart, ordered by experience. The two orders are
interleaved, so that the first few schedules differ in what matters most. If memory is the limit,
the tile matters little: see `map_schedules`, `reduction_schedules` and `thin_schedules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from skipjack.core import Access, Nest
from skipjack.solvers.cpu.nest.footprint import touched_elements, with_streaming
from skipjack.solvers.cpu.nest.register_tile import (
    Pivot,
    RegisterTile,
    find_pivot,
    throughput,
    tiles,
)
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, long_variables, normalize

# First schedules for nests that are limited by memory or a cache.
#
# These are maps, reductions of one array, and products of a large matrix with a thin one. They
# should read arrays in the order of memory, have a few vectors or rows in flight at a time, and
# write results past the caches that do not fit into them.

_COPIES = (4, 8, 16, 2, 1)
_LEAST_HALF = 4
"""The narrowest half vector, in lanes."""
_ROWS = (6, 4, 8, 2)
"""Rows read in parallel in a sum of rows."""
_SHORT_ROW = 16
"""Vectors in the longest row that counts as short."""
_TOGETHER = ((4, 1), (2, 4), (2, 2), (4, 2), (8, 1), (16, 1), (4, 4))
"""Rows at a time and vectors of each row, in the order of trial."""
_IN_TURN = ((4, 4), (8, 4), (4, 2))
"""The same for rows that are added up one after the other before moving along the row."""
_STRIPS = (4, 2, 8)
"""Vectors of each of the rows of a sum of rows."""
_FEW = 64
"""Rows in the largest result that counts as thin."""
_RESULT_ROWS = 8
_LARGE = 1 << 16
"""Elements above which a matrix is worth reading in the order of memory."""
_THIN_ROWS = (8, 12, 6, 16, 4)
_THIN_ROWS_OF_SEVERAL = (16, 8, 12, 4)
"""Rows that are read in parallel, for one or two rows of the result and for more."""
_THIN_WIDTHS = (4, 2, 1, 8)
"""Vectors of each row at a time."""


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Consecutive vectors of a variable, possibly narrower than those of the machine."""

    lanes: int
    copies: int

    def loops(self, name: str, mark: Mark, full: int) -> tuple[int, list[Loop]]:
        """The step of the outer loop, and the loops in the suffix.

        An extra loop over the vectors makes them narrower, and gives each an accumulator.
        """
        several: list[Loop] = []
        if self.copies > 1 and (self.lanes != full or mark is Mark.ACCUMULATE):
            kind = Mark.ACCUMULATE if mark is Mark.ACCUMULATE else Mark.UNROLL
            several = [Loop(name, self.lanes, kind)]
        last = Mark.VECTORIZE if mark is Mark.ACCUMULATE else mark
        return self.copies * self.lanes, [*several, Loop(name, 1, last)]


def map_schedules(nest: Nest, pivot: Pivot, streaming: bool) -> Iterator[Schedule]:
    """Every array in the order of memory, some vectors at a time; whole and half vectors alternate.

    Some cores move data outside the nearest caches faster in narrower vectors.
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
    """Schedules that take several whole rows at a time."""
    for lanes in _widths(pivot):
        for rows in (4, 8, 16, 2):
            around = [Loop(name, rows if name == names[-2] else 1) for name in names[:-1]]
            narrow = [Loop(pivot.variable, lanes, Mark.UNROLL)] if lanes < pivot.lanes else []
            suffix = [Loop(names[-2], 1, Mark.UNROLL), *narrow]
            yield normalize([*around, *suffix, Loop(pivot.variable, 1, Mark.VECTORIZE)], nest)


def reduction_schedules(nest: Nest, pivot: Pivot) -> Iterator[Schedule]:
    """Several rows in parallel if rows are added up, several accumulators if each row is
    reduced."""
    reduced = [name for name in long_variables(nest) if name in nest.reduction_loops]
    if not pivot.vectorized or not reduced:
        return
    if pivot.reduced:
        yield from _along_rows(nest, pivot)
    else:
        yield from _across_rows(nest, pivot, reduced[-1])


def _along_rows(nest: Nest, pivot: Pivot) -> Iterator[Schedule]:
    """Each row with several accumulators, in the order of memory or with the kept variables
    outermost.

    Several rows at a time are tried too: early if rows are short or several rows are added up.
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
    """How many values of a variable are taken at a time, and vectors of each value."""

    variable: str
    count: int
    copies: int
    unrolled: bool = True
    """Whether they are taken in parallel; otherwise one after the other."""


def _across_rows(nest: Nest, pivot: Pivot, summed: str) -> Iterator[Schedule]:
    """Loops in the order of memory, some rows at a time, in strips of some vectors."""
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
    """Schedules for products of a large matrix with few rows; none for other products.

    Every element of the large matrix is used at most a few times, so reading it is the limit. Some
    of its rows are read in parallel, each from front to back, while the few rows of the result stay
    in the nearest cache and are updated repeatedly.
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
    """The size of blocks of about the same size."""
    return -(-extent // -(-extent // _RESULT_ROWS))


def _is_large(access: Access, pivot: Pivot, summed: str, nest: Nest) -> bool:
    """Whether an input is large and read in vectors along the sum."""
    size = nest.extent(pivot.variable) * nest.extent(summed)
    return access.stride(pivot.variable) == 1 and access.stride(summed) > 1 and size > _LARGE


# The order of schedules.

_VARIANT_WEIGHT = 6
"""A variant is tried once this many further tiles were tried in the previous variant."""
_SAME_WIDTH_FACTOR = 0.95
"""Factor on the score of a tile for each better tile of the same width, to vary the width."""
_STREAMED = 3
"""Tiles that are tried first if writing the result is the limit."""
_THIN = 8
_REDUCTION_BLOCKS = (256, 128)
_SHORT_REDUCTION = 8
"""Reductions up to this length are unrolled completely first."""
_LONG_REDUCTION = 512
"""Reductions above this length probably need blocks, as a panel exceeds the nearest caches."""


@dataclass(frozen=True, slots=True)
class _Variant:
    """A way to put loops around a tile."""

    order: tuple[str, ...]
    """Variables of the loops above the tile, outermost first."""
    unroll: int = 1
    """Copies of the innermost reduction variable, as the outermost loop of the suffix."""
    block: int = 0
    """Step of an outermost loop on the innermost reduction variable; 0 for none."""
    accumulate: bool = False
    """Whether the unrolled copies have accumulators of their own."""


def initial_schedules_of(
    nest: Nest, lanes: int, registers: int, streaming: bool = False
) -> Iterator[Schedule]:
    """Schedules in the order in which to try them, not necessarily distinct or legal.

    With `streaming`, schedules of a map that store past the caches come first.
    """
    pivot = find_pivot(nest, lanes)
    if pivot is None:
        return
    if not nest.reduction:
        yield from map_schedules(nest, pivot, streaming)
    elif len(nest.inputs) == 1:
        yield from reduction_schedules(nest, pivot)
    else:
        yield from islice(thin_schedules(nest, pivot, registers), _THIN)
    ranked = _diverse(list(tiles(nest, pivot, registers)), nest, pivot)
    variants = _variants(nest, pivot)
    if streaming and len(nest.inputs) > 1:
        yield from _written_once(ranked, nest, pivot)
    pairs = [(at, style) for at in range(len(ranked)) for style in range(len(variants))]
    for at, style in sorted(pairs, key=lambda pair: pair[0] + _VARIANT_WEIGHT * pair[1]):
        yield _around(ranked[at], variants[style], nest, pivot)


def _written_once(ranked: Sequence[RegisterTile], nest: Nest, pivot: Pivot) -> Iterator[Schedule]:
    """Schedules in the order of memory, for results that are most of the traffic."""
    if not nest.reduction or 2 * nest.output.tensor.size < touched_elements(nest):
        return
    names = long_variables(nest)
    kept = tuple(name for name in names if name not in nest.reduction_loops)
    natural = _Variant((*kept, *(name for name in names if name in nest.reduction_loops)))
    for tile in ranked[:_STREAMED]:
        schedule = _around(tile, natural, nest, pivot)
        yield with_streaming(schedule)
        yield schedule


def _diverse(found: Sequence[RegisterTile], nest: Nest, pivot: Pivot) -> list[RegisterTile]:
    """Best first, but with a handicap for variations of a better tile of the same width."""
    scores = {tile: throughput(tile, nest, pivot) for tile in found}
    crowd: Counter[int] = Counter()
    for tile in sorted(found, key=lambda tile: -scores[tile]):
        width = tile.of(pivot.variable)
        scores[tile] *= _SAME_WIDTH_FACTOR ** crowd[width]
        crowd[width] += 1
    return sorted(found, key=lambda tile: -scores[tile])


def _variants(nest: Nest, pivot: Pivot) -> list[_Variant]:
    names = long_variables(nest)
    reductions = tuple(name for name in names if name in nest.reduction_loops)
    outputs = tuple(name for name in names if name not in reductions)
    natural = outputs + reductions
    if not reductions:
        return [_Variant(natural)]
    if pivot.reduced:
        others = tuple(name for name in names if name != pivot.variable)
        return [_Variant(order) for order in dict.fromkeys((natural, (*others, pivot.variable)))]
    # With the tile loop of the pivot outermost, the panel that is read in vectors stays in the
    # cache.
    pivot_first = (pivot.variable, *(name for name in natural if name != pivot.variable))
    orders = list(dict.fromkeys((pivot_first, natural)))
    shared = any(access.stride(pivot.variable) == 0 for access in nest.inputs)
    most = nest.extent(reductions[-1])
    unrolls = [copies for copies in ((1, 4, 2) if shared else (4, 8, 2, 1)) if copies <= most]
    if most <= _SHORT_REDUCTION:
        unrolls = list(dict.fromkeys((most, *unrolls)))
    found = [_Variant(order, copies) for copies in unrolls for order in orders]
    if not shared:
        found += [_Variant(natural, copies, accumulate=True) for copies in unrolls if copies > 1]
    blocks = [block for block in _REDUCTION_BLOCKS if block < most]
    blocked = [_Variant(order, block=block) for block in blocks for order in orders]
    early = len(orders) if most > _LONG_REDUCTION else len(found)
    return found[:early] + blocked + found[early:]


def _around(tile: RegisterTile, variant: _Variant, nest: Nest, pivot: Pivot) -> Schedule:
    reduced = [name for name in variant.order if name in nest.reduction_loops]
    outer = [Loop(reduced[-1], variant.block)] if variant.block else []
    suffix: list[Loop] = []
    for name in variant.order:
        if name == pivot.variable:
            step, marked = _pivot_loops(tile.of(name), pivot)
            suffix += marked
        elif reduced and name == reduced[-1]:
            step = variant.unroll
            mark = Mark.ACCUMULATE if variant.accumulate else Mark.UNROLL
            suffix[:0] = [Loop(name, 1, mark)] if step > 1 else []
        else:
            step = tile.of(name)
            suffix += [Loop(name, 1, Mark.UNROLL)] if step > 1 else []
        outer.append(Loop(name, step))
    suffix.sort(key=lambda loop: loop.variable == pivot.variable)
    return normalize([*outer, *suffix], nest)


def _pivot_loops(copies: int, pivot: Pivot) -> tuple[int, list[Loop]]:
    """The step of the outer loop of the pivot, and its loops in the suffix."""
    name = pivot.variable
    if not pivot.vectorized:
        mark = Mark.ACCUMULATE if pivot.reduced else Mark.UNROLL
        return copies, [Loop(name, 1, mark)] if copies > 1 else []
    several = [Loop(name, pivot.lanes, Mark.ACCUMULATE)] if pivot.reduced and copies > 1 else []
    return copies * pivot.lanes, [*several, Loop(name, 1, Mark.VECTORIZE)]
