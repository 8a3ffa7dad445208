"""A few rows of the source whose elements take turns in the target: few channels, zeros between.

Where the target is not to be written between the elements, there is one row and stores are masked.
"""

from __future__ import annotations

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.copying_leaf import Ranges
from skipjack.solvers.loops.copying_loads import StepLoads
from skipjack.solvers.loops.copying_masks import Masks
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter
from skipjack.solvers.loops.copying_pieces import GROUP, Piece, each_group, pieces
from skipjack.solvers.loops.copying_walks import Walk

MOST_ROWS = 4
"""That take turns; more of them are squares."""
_CHEAP_MASKS = 64
"""Bytes of vectors whose stores can be masked at no cost: of AVX-512 and not of AVX2."""


class InterleavedWriter:
    """Writes elements of `reader` so many apart as it steps in the target.

    `writer` goes from row to row; without one, what is between stays as it is.
    """

    blocks = 1

    def __init__(
        self, w: NumberWriter, writer: Walk | None, reader: Walk, vector: VectorType
    ) -> None:
        self.w, self.writer, self.reader, self.vector = w, writer, reader, vector
        self.item, self.ways = vector.item_bytes, reader.out
        self.loads = StepLoads(w, reader.source)
        self.group = GROUP // self.ways

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks of a short row's loads, which all rows share."""
        limits, extent = ranges[self.reader.name], self.reader.extent
        if limits == (0, extent) or extent > self.group * self.vector.lanes:
            return []
        parts = pieces(extent, self.vector)
        return [m for start, kind in parts for m in self.loads.masks(kind.lanes, start, limits)]

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """All of it."""
        w, left, limits = self.w, list(masks), ranges[self.reader.name]
        extent, rows = self.reader.extent, self._rows(ranges)
        count = len(masks) // len(pieces(extent, self.vector))

        def group(parts: list[Piece]) -> None:
            for start, kind in parts:
                own, left[:count] = left[:count], []
                if not own and limits != (0, extent):
                    own = self.loads.masks(kind.lanes, start, limits)
                at = w.moved(source, start, self.reader.source * self.item)
                there = w.moved(out, start, self.ways * self.item)
                values = [
                    self.loads.vector(kind, w.advance(at, row), own)
                    if row is not None
                    else kind.constant(0.0)
                    for row in rows
                ]
                self._store(kind, there, values)

        each_group(w, extent, self.vector, group, self.group)

    def _rows(self, ranges: Ranges) -> list[int | None]:
        """Bytes to each row in the source, None for zeros."""
        if self.writer is None:
            return [0]
        low, high = ranges[self.writer.name]
        # The plan has no other ranges for this way.
        assert isinstance(low, int) and isinstance(high, int)
        step = self.writer.source * self.item
        return [row * step if low <= row < high else None for row in range(self.writer.extent)]

    def _store(self, kind: VectorType, out: str, values: list[str]) -> None:
        w, lanes = self.w, kind.lanes
        if self.writer is None and self.vector.lanes * self.item < _CHEAP_MASKS:
            self._store_lanes(kind, out, values[0])
            return
        for part in range(self.ways):
            places = [divmod(part * lanes + lane, self.ways) for lane in range(lanes)]
            value = self._turns(kind, values, places)
            mask = None
            if self.writer is None:
                mask = "<" + ", ".join(f"i1 {str(row == 0).lower()}" for _, row in places) + ">"
            w.store(kind, value, w.advance(out, part * lanes * self.item), mask)

    def _store_lanes(self, kind: VectorType, out: str, value: str) -> None:
        """Elements one by one."""
        w, scalar = self.w, VectorType(kind.dtype, 1)
        for lane in range(kind.lanes):
            element = w.value(f"extractelement {kind.text} {value}, i64 {lane}")
            w.store(scalar, element, w.advance(out, lane * self.ways * self.item))

    def _turns(self, kind: VectorType, values: list[str], places: list[tuple[int, int]]) -> str:
        """One vector of the target: from which lane of which row each of its elements comes."""
        lanes, distinct = kind.lanes, list(dict.fromkeys(values))
        owners = [distinct.index(values[min(row, len(values) - 1)]) for _, row in places]
        indices = [index for index, _ in places]
        result = distinct[0]
        if len(distinct) == 1:
            return self.w.shuffle(kind, (result, "poison"), indices)
        for number, value in enumerate(distinct[1:], 1):
            chosen = [
                lanes + index if owner == number else index if number == 1 else lane
                for lane, (index, owner) in enumerate(zip(indices, owners, strict=True))
            ]
            result = self.w.shuffle(kind, (result, value), chosen)
        return result
