"""The copies of the body that a tile consists of: where each lies, and what it covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.core.nest import Access, Nest
from skipjack.native.ir import constant_mask
from skipjack.solvers.cpu.nest import Loop, Mark

Ranges = dict[str, int]
Flag = bool | str
"""Known now, or an i1 value."""
Sum = tuple[int, tuple[int, ...]]
"""An accumulator: offset of its output element, and which one of several by the `a` loops."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the generator is: a pointer for each access (output last) and what is left to cover."""

    pointers: tuple[str, ...]
    ranges: Ranges
    first: Flag = True
    """No earlier round of an outer reduction loop has written this output."""
    last: Flag = True
    stream: int = 0
    """Whole vectors are stored past the caches, aligned to so many bytes; 0 if they are not."""


@dataclass(frozen=True, slots=True)
class Point:
    """One copy of the body inside of the tile."""

    offsets: tuple[tuple[str, int], ...]
    active: int
    """Lanes in use."""
    accumulator: tuple[int, ...]
    """Which of several accumulators of an output element, by position in the `a` loops."""

    def offset(self, access: Access) -> int:
        """How many elements of an array lie between the tile's beginning and this copy."""
        return sum(access.stride(variable) * offset for variable, offset in self.offsets)


class TileShape:
    """The marked suffix of a schedule, in vectors of so many lanes."""

    def __init__(self, nest: Nest, loops: tuple[Loop, ...], lanes: int) -> None:
        self.nest, self.loops, self.lanes = nest, loops, lanes
        vectorized = [loop.variable for loop in loops if loop.mark.in_vectors]
        self.vector_variable = vectorized[0] if vectorized else None
        self.across = self.vector_variable in nest.reduction_loops
        """Whether the lanes of a vector are reduced to one element."""

    def points(self, ranges: Ranges) -> Iterator[Point]:
        """The copies for what is left to cover, in the order of the tile's loops."""
        return self._points(0, ranges, {}, ())

    def mask(self, point: Point) -> str | None:
        """The lanes in use; None where all are."""
        return constant_mask(self.lanes, point.active)

    def _points(
        self, position: int, ranges: Ranges, offsets: Ranges, accumulator: tuple[int, ...]
    ) -> Iterator[Point]:
        if position == len(self.loops):
            active = ranges[self.vector_variable] if self.vector_variable else 1
            yield Point(tuple(sorted(offsets.items())), active, accumulator)
            return
        loop = self.loops[position]
        covered = ranges[loop.variable]
        step = self.lanes if loop.mark.in_vectors else loop.step
        for number, start in enumerate(range(0, covered, step)):
            yield from self._points(
                position + 1,
                {**ranges, loop.variable: min(step, covered - start)},
                {**offsets, loop.variable: offsets.get(loop.variable, 0) + start},
                (*accumulator, number) if loop.mark is Mark.ACCUMULATE else accumulator,
            )
