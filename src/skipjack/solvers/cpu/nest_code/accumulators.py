"""The copies of the body in a tile, and the accumulators that they add to.

A sum has one value for each accumulator. A maximum must keep NaN, and the single x86 instruction
for it does not. So the accumulators of a maximum ignore NaN, and a second value next to each
becomes NaN once an input was NaN; one comparison checks two inputs, half the work of a maximum
that keeps NaN itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce as fold
from math import nan

from skipjack.core import Access, Accumulator, Load, Nest
from skipjack.core import subexpressions as scalar_parts
from skipjack.native import IRWriter, VectorType, constant_mask
from skipjack.solvers.cpu.ir import (
    combine,
    contiguous_runs,
    evaluated,
    identity,
    larger,
    reduced_lanes,
    store_or_stream,
)
from skipjack.solvers.cpu.nest import Loop, Mark

# The copies of the body that make up a tile.

Ranges = dict[str, int]
Flag = bool | str
"""Known when the code is generated, or an i1 value."""
AccumulatorKey = tuple[int, tuple[int, ...]]
"""An accumulator: the offset of its output element, and its index in the `a` loops."""


@dataclass(frozen=True, slots=True)
class TilePosition:
    """A position in the loops: a pointer for each access (output last) and the ranges left to
    cover."""

    pointers: tuple[str, ...]
    ranges: Ranges
    first: Flag = True
    """Whether no earlier iteration of an outer reduction loop has written this output."""
    last: Flag = True
    stream: int = 0
    """Alignment in bytes of whole vectors that are stored past the caches; 0 for plain stores."""


@dataclass(frozen=True, slots=True)
class Point:
    """One copy of the body in the tile."""

    offsets: tuple[tuple[str, int], ...]
    active: int
    """How many lanes are used."""
    accumulator: tuple[int, ...]
    """The index of its accumulator in the `a` loops."""

    def offset(self, access: Access) -> int:
        """The distance in elements of an array from the start of the tile to this copy."""
        return sum(access.stride(variable) * offset for variable, offset in self.offsets)


class TileShape:
    """The marked suffix of a schedule, in vectors of `lanes` elements."""

    def __init__(self, nest: Nest, loops: tuple[Loop, ...], lanes: int) -> None:
        self.nest, self.loops, self.lanes = nest, loops, lanes
        vectorized = [loop.variable for loop in loops if loop.mark.in_vectors]
        self.vector_variable = vectorized[0] if vectorized else None
        self.across = self.vector_variable in nest.reduction_loops
        """Whether the lanes of a vector are reduced to one element at the end."""

    def points(self, ranges: Ranges) -> Iterator[Point]:
        """The copies that cover some ranges, in the order of the tile's loops."""
        return self._points(0, ranges, {}, ())

    def mask(self, point: Point) -> str | None:
        """A mask of the lanes in use; None if all are."""
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


# The accumulators of a tile: initial values, updates, and the final reduction.

_NAN_MARK = (-1,)
"""Stands in an accumulator key for the value that records NaN."""


class TileAccumulators:
    """Writes the code around the accumulators of one tile."""

    def __init__(self, writer: IRWriter, shape: TileShape, vector: VectorType) -> None:
        self.w, self.shape, self.vector = writer, shape, vector
        self.nest, self.reduction = shape.nest, shape.nest.reduction

    def keys(self, points: list[Point]) -> list[AccumulatorKey]:
        """The accumulators of some copies of the body, and the values that record NaN."""
        output = self.nest.output
        found = dict.fromkeys((point.offset(output), point.accumulator) for point in points)
        if self.reduction == "max":
            found |= dict.fromkeys((offset, _NAN_MARK) for offset, _ in list(found))
        return list(found)

    def fresh(self, key: AccumulatorKey) -> str:
        """The initial value of an accumulator."""
        if key[1] == _NAN_MARK:
            return self.vector.constant(-0.0)  # added to anything, it changes nothing
        return self.vector.constant(identity(self.reduction))

    def start(
        self, tile_at: TilePosition, keys: list[AccumulatorKey], points: dict[int, Point]
    ) -> list[str]:
        """The initial accumulators; one of each output element starts from the value in the
        output."""
        started = {key: self.fresh(key) for key in keys}
        if tile_at.first is True or self.shape.across:
            return list(started.values())
        seen: set[int] = set()
        for key in keys:
            offset = key[0]
            if offset not in seen:
                seen.add(offset)
                before = self._before(tile_at, offset, self.vector, self.shape.mask(points[offset]))
                started[key] = self._unless_first(tile_at, self.vector, before, started[key])
        return list(started.values())

    # Updates

    def take(self, state: dict[AccumulatorKey, str], key: AccumulatorKey, value: str) -> None:
        """Add a value to an accumulator; for a maximum, NaN is recorded separately."""
        if self.reduction == "max":
            state[key] = larger(self.w, self.vector, value, state[key])
        else:
            state[key] = combine(self.w, self.vector, self.reduction, state[key], value)

    def mark_nan(
        self, state: dict[AccumulatorKey, str], offset: int, left: str, right: str
    ) -> None:
        """Record whether one of two values of an output element is NaN."""
        key = (offset, _NAN_MARK)
        text, lanes = self.vector.text, self.vector.lanes
        odd = self.w.value(f"fcmp uno {text} {left}, {right}")
        truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
        bad = self.vector.constant(nan)
        state[key] = self.w.value(f"select {truth} {odd}, {text} {bad}, {text} {state[key]}")

    def folded(self, left: list[str], right: list[str]) -> list[str]:
        """Two lists of accumulators combined pair by pair."""
        pairs = zip(left, right, strict=True)
        return [combine(self.w, self.vector, self.reduction, *pair) for pair in pairs]

    def neutral(self, value: str, point: Point) -> str:
        """The value with the identity of the reduction in lanes beyond the end."""
        mask = self.shape.mask(point)
        if mask is None or not self.shape.across:
            return value
        neutral = self.vector.constant(identity(self.reduction))
        text = self.vector.text
        lanes = f"<{self.vector.lanes} x i1>"
        return self.w.value(f"select {lanes} {mask}, {text} {value}, {text} {neutral}")

    # Results

    def finish(
        self,
        tile_at: TilePosition,
        keys: list[AccumulatorKey],
        values: list[str],
        points: dict[int, Point],
    ) -> None:
        """Combine the accumulators of each output element and write it."""
        own: dict[int, list[str]] = {}
        nan_marks: dict[int, str] = {}
        for (offset, number), value in zip(keys, values, strict=True):
            if number == _NAN_MARK:
                nan_marks[offset] = value
            else:
                own.setdefault(offset, []).append(value)
        totals: dict[int, str] = {}
        for offset, parts in own.items():
            totals[offset] = self._tree(parts)
            if offset in nan_marks:
                added = f"fadd {self.vector.text} {totals[offset]}, {nan_marks[offset]}"
                totals[offset] = self.w.value(added)
        if self.shape.across:
            self._write_elements(tile_at, totals, points)
            return
        for offset, total in totals.items():
            done = self._epilogue(tile_at, self.vector, total, points[offset])
            at = self.w.advance(tile_at.pointers[-1], offset * self.vector.item_bytes)
            mask = self.shape.mask(points[offset])
            store_or_stream(self.w, self.vector, done, at, mask, tile_at.stream)

    def _write_elements(
        self, tile_at: TilePosition, totals: dict[int, str], points: dict[int, Point]
    ) -> None:
        """Reduce the lanes; neighbouring output elements are written together."""
        reads = any(isinstance(part, Load) for part in scalar_parts(self.nest.epilogue))
        lanes = 1 if reads else self.vector.lanes
        for run in contiguous_runs(sorted(totals), lanes):
            values = [totals[offset] for offset in run]
            kind, total = reduced_lanes(self.w, self.vector, self.reduction, values)
            if tile_at.first is not True:
                before = self._before(tile_at, run[0], kind, None)
                neutral = kind.constant(identity(self.reduction))
                before = self._unless_first(tile_at, kind, before, neutral)
                total = combine(self.w, kind, self.reduction, before, total)
            total = self._epilogue(tile_at, kind, total, points[run[0]])
            at = self.w.advance(tile_at.pointers[-1], run[0] * kind.item_bytes)
            store_or_stream(self.w, kind, total, at, None, tile_at.stream)

    def _tree(self, values: list[str]) -> str:
        """Combine accumulators pairwise, which keeps chains of rounding errors short."""
        while len(values) > 1:
            pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
            values = [
                fold(lambda a, b: combine(self.w, self.vector, self.reduction, a, b), pair)
                for pair in pairs
            ]
        return values[0]

    def _before(
        self, tile_at: TilePosition, offset: int, kind: VectorType, mask: str | None
    ) -> str:
        at = self.w.advance(tile_at.pointers[-1], offset * kind.item_bytes)
        return self.w.load(kind, at, mask)

    def _unless_first(
        self, tile_at: TilePosition, kind: VectorType, before: str, neutral: str
    ) -> str:
        if tile_at.first is False:
            return before
        return self.w.value(
            f"select i1 {tile_at.first}, {kind.text} {neutral}, {kind.text} {before}"
        )

    def _epilogue(self, tile_at: TilePosition, kind: VectorType, total: str, point: Point) -> str:
        if self.nest.epilogue == Accumulator() or tile_at.last is False:
            return total

        def leaf(scalar: Load | Accumulator) -> str:
            if isinstance(scalar, Accumulator):
                return total
            return self._epilogue_input(scalar.operand, kind, tile_at, point)

        done = evaluated(self.w, kind, self.nest.epilogue, leaf)
        if tile_at.last is True:
            return done
        return self.w.value(f"select i1 {tile_at.last}, {kind.text} {done}, {kind.text} {total}")

    def _epilogue_input(
        self, operand: int, kind: VectorType, tile_at: TilePosition, point: Point
    ) -> str:
        """An input of the epilogue at the position of the output element."""
        access = self.nest.inputs[operand]
        at = self.w.advance(tile_at.pointers[operand], point.offset(access) * kind.item_bytes)
        if kind.lanes == 1 or access.stride(self.shape.vector_variable or "") == 0:
            return self.w.broadcast(kind, at)
        return self.w.load(kind, at, self.shape.mask(point))
