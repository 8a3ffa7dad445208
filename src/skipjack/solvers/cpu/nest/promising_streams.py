"""First schedules for nests that read each element once: maps, and reductions of one array.

Memory is their limit, or a cache. What counts is to read arrays in their own order, to have a few
vectors or rows on their way at a time, and to write past the caches what does not fit into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.composing import long_variables
from skipjack.solvers.cpu.nest.register_tile import Pivot
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, normalize

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
