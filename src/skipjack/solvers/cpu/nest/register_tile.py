"""Register tiles and a simple model of what they cost.

A tile says how many copies of each variable the straight-line code has, and which variable (the
pivot) lies in vectors. The model counts half cycles of a core that starts two multiply-adds and two
loads per cycle: a step takes as long as its busiest unit, and not less than the latency of a
multiply-add. It ignores caches; it is meant to order tiles, not to predict times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from skipjack.core import Nest
from skipjack.solvers.cpu.nest.schedule import long_variables, vector_variables

VECTORS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Widths of a register tile, in vectors."""

_LATENCY = 10
"""Multiply-adds that must be in flight to keep two units busy."""
_TILE_OVERHEAD = 8
_LOAD_PRICE = 0.15
"""The cost of a load that arithmetic hides: it still occupies the front end."""
_MAX_UNROLL = 28


@dataclass(frozen=True, slots=True)
class Pivot:
    """The innermost variable of a tile: vectorised, or unrolled if nothing can be vectorised."""

    variable: str
    lanes: int
    reduced: bool

    @property
    def vectorized(self) -> bool:
        return self.lanes > 1


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Copies per variable, in vectors for the pivot; missing variables have one copy."""

    copies: tuple[tuple[str, int], ...]

    def of(self, variable: str) -> int:
        return dict(self.copies).get(variable, 1)


def find_pivot(nest: Nest, lanes: int) -> Pivot | None:
    """The best variable to vectorise, else the innermost one to unroll; None without any loop."""
    able = vector_variables(nest, lanes)
    if able:
        return Pivot(able[0], lanes, able[0] in nest.reduction_loops)
    names = long_variables(nest)
    outputs = [name for name in names if name not in nest.reduction_loops]
    if not names:
        return None
    return Pivot((outputs or names)[-1], 1, not outputs)


def tiles(nest: Nest, pivot: Pivot, registers: int) -> Iterator[RegisterTile]:
    """The tiles of a nest whose values fit into the registers."""
    most = -(-nest.extent(pivot.variable) // pivot.lanes)
    for others in _other_copies(nest, pivot):
        for width in _widths(nest, pivot, alone=not others):
            tile = RegisterTile(((pivot.variable, width), *others))
            if width <= most and _registers_used(tile, nest, pivot) <= registers:
                yield tile


def _widths(nest: Nest, pivot: Pivot, alone: bool) -> tuple[int, ...]:
    if pivot.reduced or not nest.reduction:
        return (1, 2, 4, 8)
    # A single row of accumulators must be long to hide the latency.
    return (*VECTORS, 12, 16) if alone else VECTORS


def _other_copies(nest: Nest, pivot: Pivot) -> Iterator[tuple[tuple[str, int], ...]]:
    """Copies of the output's other variables: none, of one variable, or a few of the last two."""
    free = {*nest.reduction_loops, pivot.variable}
    others = [name for name in long_variables(nest) if name not in free]
    # Many copies pay if an input does not depend on the variable, so that one load of it serves all
    # of them; otherwise they only read more streams of memory.
    reused = [name for name in others if nest.reduction and _is_shared(name, nest)]
    yield ()
    for name in others:
        choices = range(2, _MAX_UNROLL + 1) if name in reused else (2, 4)
        yield from (((name, copies),) for copies in choices if copies <= nest.extent(name))
    if len(reused) > 1:
        first, second = reused[-2:]
        for left, right in product(range(2, 7), repeat=2):
            if left <= nest.extent(first) and right <= nest.extent(second):
                yield ((first, left), (second, right))


def _is_shared(variable: str, nest: Nest) -> bool:
    return any(access.stride(variable) == 0 for access in nest.inputs)


def _registers_used(tile: RegisterTile, nest: Nest, pivot: Pivot) -> int:
    copies = prod(count for _, count in tile.copies)
    if not nest.reduction:
        return copies
    if not pivot.reduced:
        return copies + tile.of(pivot.variable) + 1
    return copies + min(_loads(tile.copies, nest)) + 1


def throughput(tile: RegisterTile, nest: Nest, pivot: Pivot) -> float:
    """Useful vector operations per half cycle over the whole nest, including tails: at most 1."""
    work = prod(extent for _, extent in nest.loops) / pivot.lanes
    tiled = dict(tile.copies)
    outputs = [name for name in long_variables(nest) if name not in nest.reduction_loops]
    shapes = [[(name, *piece) for piece in _pieces(name, tiled, nest, pivot)] for name in outputs]
    time = 0.0
    for shape in product(*shapes):
        copies = {**tiled, **{name: count for name, _, count in shape}}
        time += prod(times for _, times, _ in shape) * _tile_time(copies, nest, pivot)
    return work / time


def _pieces(
    name: str, tiled: Mapping[str, int], nest: Nest, pivot: Pivot
) -> Iterator[tuple[int, int]]:
    """The number of full tiles along a variable and their copies, then the tail."""
    lanes = pivot.lanes if name == pivot.variable else 1
    copies = tiled.get(name, 1)
    full, tail = divmod(nest.extent(name), copies * lanes)
    if full:
        yield full, copies
    if tail:
        yield 1, -(-tail // lanes)


def _tile_time(copies: Mapping[str, int], nest: Nest, pivot: Pivot) -> float:
    operations = prod(copies.values())
    loads = sum(_loads(tuple(copies.items()), nest))
    stores = operations // (copies[pivot.variable] if pivot.reduced else 1)
    steps = prod(nest.extent(name) for name in nest.reduction_loops)
    if pivot.reduced:
        steps = -(-steps // (pivot.lanes * copies[pivot.variable]))
    busiest = max(operations, loads, _LATENCY if nest.reduction else 0)
    return steps * (busiest + _LOAD_PRICE * loads) + stores + _TILE_OVERHEAD


def _loads(copies: tuple[tuple[str, int], ...], nest: Nest) -> list[int]:
    """The number of distinct values of each input that one step over the tile reads."""
    return [
        prod(count for name, count in copies if access.stride(name)) for access in nest.inputs
    ] or [0]
