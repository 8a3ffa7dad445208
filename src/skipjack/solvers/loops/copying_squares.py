"""Squares of a copy: one walk lies side by side in the target, another one in the source."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.cpu_levels import lanes_for
from skipjack.native.ir import VectorType, constant_mask
from skipjack.solvers.loops.copying_leaf import Ranges
from skipjack.solvers.loops.copying_loads import StepLoads
from skipjack.solvers.loops.copying_masks import Masks, both, everywhere
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter
from skipjack.solvers.loops.copying_walks import Walk
from skipjack.solvers.loops.packing import transpose

_AHEAD = 128
"""Bytes from what is read to what is fetched: the line after the next."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How squares follow each other, which matters to arrays that are larger than caches."""

    fetches: bool = False
    """Whether lines are fetched before their turn. Rows of the source are far apart: the CPU does
    not see what comes next."""
    strip: int = 1
    """Squares side by side in the source that follow each other, before the next in the target."""


class SquareWriter:
    """Writes squares of as many steps of both walks as a vector has lanes.

    Where a walk is no multiple of that, its last square overlaps the one before.
    """

    def __init__(
        self, w: NumberWriter, writer: Walk, reader: Walk, vector: VectorType, pace: Pace
    ) -> None:
        self.w, self.writer, self.reader = w, writer, reader
        self.item = vector.item_bytes
        lanes = lanes_for(min(writer.extent, reader.extent), vector.lanes)
        self.vector = VectorType(vector.dtype, lanes)
        self.loads = StepLoads(w, reader.source)
        self.fetches = pace.fetches
        self.strip = pace.strip if reader.extent >= 2 * pace.strip * lanes else 1
        self.blocks = -(-reader.extent // (self.strip * lanes))
        """Strips of the walk that lies side by side in the source."""

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks differ from square to square."""
        return []

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """All squares, or those of one strip."""
        w, extent, size = self.w, self.reader.extent, self.strip * self.vector.lanes

        def strip(number: Number) -> None:
            start = w.smaller(w.times(number, size), max(0, extent - size))
            self._strip(out, source, ranges, start)

        if block is None:
            w.each(self.blocks, strip)
        else:
            strip(block)

    def _strip(self, out: str, source: str, ranges: Ranges, start: Number) -> None:
        w, lanes, extent = self.w, self.vector.lanes, self.writer.extent

        def row_block(number: Number) -> None:
            row = w.smaller(w.times(number, lanes), max(0, extent - lanes))
            w.each(self.strip, lambda part: square(row, part))

        def square(row: Number, part: Number) -> None:
            column = w.plus(start, w.times(part, lanes))
            here, there = source, out
            for walk, index in ((self.writer, row), (self.reader, column)):
                here = w.moved(here, index, walk.source * self.item)
                there = w.moved(there, index, walk.out * self.item)
            self._square(there, here, self._masks(row, column, ranges))

        w.each(-(-extent // lanes), row_block)

    def _square(self, out: str, source: str, masks: list[Masks]) -> None:
        """As many rows of the source as there are masks for, turned."""
        w, step = self.w, self.writer.source * self.item
        rows = []
        for row, own in enumerate(masks):
            at = w.advance(source, row * step)
            if self.fetches:
                w.prefetch(w.advance(at, _AHEAD), cache=2)
            rows.append(self.loads.vector(self.vector, at, own))
        columns = transpose(w, self.vector, rows)[: self.reader.extent]
        inside = constant_mask(self.vector.lanes, len(rows))
        # What is too much of a column is written over by the next one, where that lies right
        # behind: masked stores are slow on many CPUs.
        dense = self.reader.out == len(rows)
        for number, column in enumerate(columns):
            place = w.advance(out, number * self.reader.out * self.item)
            last = number == len(columns) - 1
            w.store(self.vector, column, place, inside if last or not dense else None)

    def _masks(self, row: Number, column: Number, ranges: Ranges) -> list[Masks]:
        """Of the loads of each row of a square."""
        w, lanes = self.w, self.vector.lanes
        count = min(lanes, self.writer.extent)
        low, high = ranges[self.writer.name]
        own: Masks = []
        if ranges[self.reader.name] != (0, self.reader.extent) or self.reader.extent < lanes:
            own = self.loads.masks(lanes, column, ranges[self.reader.name])
        if (low, high) == (0, self.writer.extent):
            return [own] * count
        loads = own or self.loads.masks(lanes, 0, (0, lanes))
        first, there = w.minus(row, low), w.minus(high, low)
        valid = [everywhere(w, lanes, w.plus(first, each), there) for each in range(count)]
        return [[both(w, lanes, mask, row_mask) for mask in loads] for row_mask in valid]
