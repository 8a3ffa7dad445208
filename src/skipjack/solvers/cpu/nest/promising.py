"""Schedules that are good before anything was measured, best first.

Every schedule here is a register tile (`register_tile`) with loops around it. Tiles are ordered by
the model; the ways to put loops around one (order, unrolled reduction, blocked reduction) are
variants that the model cannot tell apart, ordered by experience. The two orders are interleaved, so
that the first few schedules differ in what matters most.

Where memory is the limit, the tile matters little: see `memory_bound`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.footprint import touched_elements, with_streaming
from skipjack.solvers.cpu.nest.memory_bound import (
    map_schedules,
    reduction_schedules,
    thin_schedules,
)
from skipjack.solvers.cpu.nest.register_tile import (
    Pivot,
    RegisterTile,
    find_pivot,
    throughput,
    tiles,
)
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, long_variables, normalize

_VARIANT_WEIGHT = 6
"""A variant is tried once this many further tiles were tried in the variant before it."""
_CROWDING = 0.95
"""What each tile of the same width takes off the next one's score, to try other widths soon."""
_STREAMED = 3
"""Tiles that are tried first where writing the result is the limit."""
_THIN = 8
"""Schedules for thin products that come before the others."""
_REDUCTION_BLOCKS = (256, 128)
_SHORT_REDUCTION = 8
"""Reductions up to this length are unrolled as a whole first."""
_LONG_REDUCTION = 512
"""Reductions beyond this length are likely to want blocks, as a panel leaves the nearest caches."""


@dataclass(frozen=True, slots=True)
class _Variant:
    """How to put loops around a tile."""

    order: tuple[str, ...]
    """Variables of the loops above the tile, outermost first."""
    unroll: int = 1
    """Copies of the innermost reduction variable, as the outermost loop of the suffix."""
    block: int = 0
    """Step of the innermost reduction variable around everything; 0 for none."""
    accumulate: bool = False
    """Whether those copies have accumulators of their own."""


def promising_schedules(
    nest: Nest, lanes: int, registers: int, streaming: bool = False
) -> Iterator[Schedule]:
    """Schedules, not necessarily distinct or legal, in the order in which to try them.

    With `streaming` those of a map that store past the caches come first.
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
    """For a result that is most of the traffic: in the order of memory, past the caches or not."""
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
    """Best first, but with a handicap for those that only vary a better one of the same width."""
    scores = {tile: throughput(tile, nest, pivot) for tile in found}
    crowd: Counter[int] = Counter()
    for tile in sorted(found, key=lambda tile: -scores[tile]):
        width = tile.of(pivot.variable)
        scores[tile] *= _CROWDING ** crowd[width]
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
    # With the pivot's tile loop outermost, the panel that is read in vectors stays in the cache.
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
    """The step of the pivot's outer loop, and its loops in the suffix."""
    name = pivot.variable
    if not pivot.vectorized:
        mark = Mark.ACCUMULATE if pivot.reduced else Mark.UNROLL
        return copies, [Loop(name, 1, mark)] if copies > 1 else []
    several = [Loop(name, pivot.lanes, Mark.ACCUMULATE)] if pivot.reduced and copies > 1 else []
    return copies * pivot.lanes, [*several, Loop(name, 1, Mark.VECTORIZE)]
