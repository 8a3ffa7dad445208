"""The innermost loops of a copy: single elements, rows, transposed tiles, interleaved rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from skipjack.core import lanes_for
from skipjack.native import VectorType, constant_mask
from skipjack.solvers.cpu.copy.description import CopyLoop
from skipjack.solvers.cpu.copy.loads import (
    Masks,
    Number,
    NumberWriter,
    Range,
    StepLoads,
    both,
    everywhere,
)
from skipjack.solvers.cpu.copy.runs import (
    GROUP,
    CopyFunctions,
    RunVector,
    each_group,
    fill,
    run_vectors,
)
from skipjack.solvers.cpu.ir import transpose

# Single elements, and what all ways to copy the innermost loops have in common.

Ranges = Mapping[str, Range]
"""The range of each loop that the bounds allow."""


class InnerCopy(Protocol):
    """Writes the innermost loops, whose ranges may be known only at run time."""

    @property
    def blocks(self) -> int:
        """Number of parts that threads may share out."""
        ...

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks that are computed once for all positions with the same ranges, in an outer loop."""
        ...

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """Write everything or one block; `masks` are those that `prepared` returned."""
        ...


class ElementCopy:
    """A single element, if no loop lies side by side in the target."""

    blocks = 1

    def __init__(self, w: NumberWriter, dtype: str, *, only_zeros: bool) -> None:
        self.w, self.kind, self.only_zeros = w, VectorType(dtype, 1), only_zeros

    def prepared(self, ranges: Ranges) -> Masks:
        """No masks: it has no loop."""
        return []

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """Copy the element, or write zero."""
        w, kind = self.w, self.kind
        w.store(kind, kind.constant(0.0) if self.only_zeros else w.load(kind, source), out)


# Rows: the target is written side by side, the source is read side by side or in small steps.

_BLOCK = 2048
"""Elements of each block of a long row that threads share out."""


class RowCopy:
    """Writes one row; its loop writes side by side. With `only_zeros` a row of zeros."""

    def __init__(
        self,
        w: NumberWriter,
        loop: CopyLoop,
        library: CopyFunctions,
        *,
        bounded: bool = False,
        only_zeros: bool = False,
    ) -> None:
        self.w, self.loop, self.library, self.only_zeros = w, loop, library, only_zeros
        self.vector, self.item = library.vector, library.vector.item_bytes
        self.loads = StepLoads(w, loop.source)
        self.short = loop.extent <= GROUP * self.vector.lanes
        self.blocks = 1 if bounded else max(1, loop.extent // _BLOCK)

    def prepared(self, ranges: Ranges) -> Masks:
        limits = ranges[self.loop.name]
        if not self.short or limits == (0, self.loop.extent):
            return []
        parts = run_vectors(self.loop.extent, self.vector)
        return [m for start, kind in parts for m in self.loads.masks(kind.lanes, start, limits)]

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        w, limits, extent = self.w, ranges[self.loop.name], self.loop.extent
        if block is not None:
            size = -(-extent // self.blocks)
            start = w.smaller(w.times(block, size), extent - size)
            out, source = self._moved(out, source, start)
            extent = size
        elif limits != (0, extent):
            self._guarded(out, source, limits, masks)
            return
        self._whole(out, source, extent)

    def _moved(self, out: str, source: str, index: Number) -> tuple[str, str]:
        w = self.w
        return w.moved(out, index, self.item), w.moved(source, index, self.loop.source * self.item)

    def _whole(self, out: str, source: str, extent: int) -> None:
        """A row, or a part of one, without bounds."""
        w = self.w

        def group(parts: list[RunVector]) -> None:
            places = [(kind, *self._moved(out, source, start)) for start, kind in parts]
            values = [self.loads.vector(kind, at, []) for kind, _, at in places]
            for (kind, there, _), value in zip(places, values, strict=True):
                w.store(kind, value, there)

        if self.only_zeros:
            fill(w, out, extent, self.vector)
        else:
            each_group(w, extent, self.vector, group)

    def _guarded(self, out: str, source: str, limits: Range, masks: Masks) -> None:
        if self.short or self.loop.source != 1:
            self._masked(out, source, limits, masks)
        else:
            self._three_parts(out, source, limits)

    def _masked(self, out: str, source: str, limits: Range, masks: Masks) -> None:
        """Vectors with masked loads; a long row computes its masks as it goes."""
        w, left = self.w, list(masks)
        count = len(masks) // len(run_vectors(self.loop.extent, self.vector))

        def group(parts: list[RunVector]) -> None:
            for start, kind in parts:
                own, left[:count] = left[:count], []
                if not own:
                    own = self.loads.masks(kind.lanes, start, limits)
                there, at = self._moved(out, source, start)
                w.store(kind, self.loads.vector(kind, at, own), there)

        each_group(w, self.loop.extent, self.vector, group)

    def _three_parts(self, out: str, source: str, limits: Range) -> None:
        """Write zeros, copy, write zeros."""
        w, extent, (low, high) = self.w, self.loop.extent, limits
        count = w.minus(high, low)
        there, here = self._moved(out, source, low)
        behind = w.moved(out, high, self.item)
        if isinstance(low, int) and isinstance(high, int) and high > low:
            fill(w, out, low, self.vector)
            self._whole(there, here, high - low)
            fill(w, behind, extent - high, self.vector)
            return
        self.library.zeros(w, out, low)
        self.library.move(w, there, here, count)
        self.library.zeros(w, behind, w.minus(extent, high))


# Transposed tiles: one loop lies side by side in the target, another one in the source.

_AHEAD = 128
"""Prefetch distance in bytes: the cache line after the next."""


@dataclass(frozen=True, slots=True)
class TransposeSettings:
    """The order of transposed tiles, which matters for arrays larger than the caches."""

    fetches: bool = False
    """Whether lines are prefetched. Rows of the source lie far apart, so the hardware does not."""
    strip: int = 1
    """Tiles side by side in the source that are done before the next ones in the target."""


class TransposedCopy:
    """Writes square tiles of as many steps of both loops as a vector has lanes.

    If a loop is not a multiple of that, its last tile overlaps the one before.
    """

    def __init__(
        self,
        w: NumberWriter,
        writer: CopyLoop,
        reader: CopyLoop,
        vector: VectorType,
        transpose_settings: TransposeSettings,
    ) -> None:
        self.w, self.writer, self.reader = w, writer, reader
        self.item = vector.item_bytes
        lanes = lanes_for(min(writer.extent, reader.extent), vector.lanes)
        self.vector = VectorType(vector.dtype, lanes)
        self.loads = StepLoads(w, reader.source)
        self.fetches = transpose_settings.fetches
        self.strip = (
            transpose_settings.strip if reader.extent >= 2 * transpose_settings.strip * lanes else 1
        )
        self.blocks = -(-reader.extent // (self.strip * lanes))
        """Strips of the loop that lies side by side in the source."""

    def prepared(self, ranges: Ranges) -> Masks:
        """No masks: they differ from tile to tile."""
        return []

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """All tiles, or those of one strip."""
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
            w.each(self.strip, lambda part: tile(row, part))

        def tile(row: Number, part: Number) -> None:
            column = w.plus(start, w.times(part, lanes))
            here, there = source, out
            for loop, index in ((self.writer, row), (self.reader, column)):
                here = w.moved(here, index, loop.source * self.item)
                there = w.moved(there, index, loop.out * self.item)
            self._tile(there, here, self._masks(row, column, ranges))

        w.each(-(-extent // lanes), row_block)

    def _tile(self, out: str, source: str, masks: list[Masks]) -> None:
        """Transpose as many rows of the source as there are masks."""
        w, step = self.w, self.writer.source * self.item
        rows = []
        for row, own in enumerate(masks):
            at = w.advance(source, row * step)
            if self.fetches:
                w.prefetch(w.advance(at, _AHEAD), cache=2)
            rows.append(self.loads.vector(self.vector, at, own))
        columns = transpose(w, self.vector, rows)[: self.reader.extent]
        inside = constant_mask(self.vector.lanes, len(rows))
        # If columns are adjacent, the excess of a column is overwritten by the next one: masked
        # stores are slow on many CPUs.
        dense = self.reader.out == len(rows)
        for number, column in enumerate(columns):
            place = w.advance(out, number * self.reader.out * self.item)
            last = number == len(columns) - 1
            w.store(self.vector, column, place, inside if last or not dense else None)

    def _masks(self, row: Number, column: Number, ranges: Ranges) -> list[Masks]:
        """The masks of the loads of each row of a tile."""
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


# A few rows of the source whose elements alternate in the target: few channels, zeros between.
#
# If the elements between must not be written, there is one row and stores are masked.

MOST_ROWS = 4
"""Most rows that are interleaved; more of them are transposed."""
_CHEAP_MASKS = 64
"""Vectors of this size have masked stores at no cost: AVX-512, but not AVX2."""


class InterleavedCopy:
    """Writes the elements of `reader` apart, by its step in the target.

    `writer` is the loop over the rows; without one, the elements between stay as they are.
    """

    blocks = 1

    def __init__(
        self, w: NumberWriter, writer: CopyLoop | None, reader: CopyLoop, vector: VectorType
    ) -> None:
        self.w, self.writer, self.reader, self.vector = w, writer, reader, vector
        self.item, self.ways = vector.item_bytes, reader.out
        self.loads = StepLoads(w, reader.source)
        self.group = GROUP // self.ways

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks of the loads of a short row, which all rows share."""
        limits, extent = ranges[self.reader.name], self.reader.extent
        if limits == (0, extent) or extent > self.group * self.vector.lanes:
            return []
        parts = run_vectors(extent, self.vector)
        return [m for start, kind in parts for m in self.loads.masks(kind.lanes, start, limits)]

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        w, left, limits = self.w, list(masks), ranges[self.reader.name]
        extent, rows = self.reader.extent, self._rows(ranges)
        count = len(masks) // len(run_vectors(extent, self.vector))

        def group(parts: list[RunVector]) -> None:
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
        """The offset of each row in the source in bytes; None for zeros."""
        if self.writer is None:
            return [0]
        low, high = ranges[self.writer.name]
        # The plan chooses this kind only if the rows are known.
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
        """Store elements one by one."""
        w, scalar = self.w, VectorType(kind.dtype, 1)
        for lane in range(kind.lanes):
            element = w.value(f"extractelement {kind.text} {value}, i64 {lane}")
            w.store(scalar, element, w.advance(out, lane * self.ways * self.item))

    def _turns(self, kind: VectorType, values: list[str], places: list[tuple[int, int]]) -> str:
        """One vector of the target; `places` are the lane and the row of each of its elements."""
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
