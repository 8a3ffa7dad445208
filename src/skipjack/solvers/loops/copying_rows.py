"""Rows of a copy: the target is written side by side, the source read so or in small steps."""

from __future__ import annotations

from skipjack.solvers.loops.copying_leaf import Ranges
from skipjack.solvers.loops.copying_loads import StepLoads
from skipjack.solvers.loops.copying_masks import Masks, Range
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter
from skipjack.solvers.loops.copying_pieces import GROUP, Library, Piece, each_group, fill, pieces
from skipjack.solvers.loops.copying_walks import Walk

_BLOCK = 2048
"""Elements of a long row that threads share out."""


class RowWriter:
    """Writes one row; `walk` writes side by side. With `nothing` to copy, a row of zeros."""

    def __init__(
        self,
        w: NumberWriter,
        walk: Walk,
        library: Library,
        *,
        bounded: bool = False,
        nothing: bool = False,
    ) -> None:
        self.w, self.walk, self.library, self.nothing = w, walk, library, nothing
        self.vector, self.item = library.vector, library.vector.item_bytes
        self.loads = StepLoads(w, walk.source)
        self.short = walk.extent <= GROUP * self.vector.lanes
        self.blocks = 1 if bounded else max(1, walk.extent // _BLOCK)

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks of a short row's loads."""
        limits = ranges[self.walk.name]
        if not self.short or limits == (0, self.walk.extent):
            return []
        parts = pieces(self.walk.extent, self.vector)
        return [m for start, kind in parts for m in self.loads.masks(kind.lanes, start, limits)]

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """One row, or a block of it."""
        w, limits, extent = self.w, ranges[self.walk.name], self.walk.extent
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
        return w.moved(out, index, self.item), w.moved(source, index, self.walk.source * self.item)

    def _whole(self, out: str, source: str, extent: int) -> None:
        """Elements without bounds."""
        w = self.w

        def group(parts: list[Piece]) -> None:
            places = [(kind, *self._moved(out, source, start)) for start, kind in parts]
            values = [self.loads.vector(kind, at, []) for kind, _, at in places]
            for (kind, there, _), value in zip(places, values, strict=True):
                w.store(kind, value, there)

        if self.nothing:
            fill(w, out, extent, self.vector)
        else:
            each_group(w, extent, self.vector, group)

    def _guarded(self, out: str, source: str, limits: Range, masks: Masks) -> None:
        if self.short or self.walk.source != 1:
            self._masked(out, source, limits, masks)
        else:
            self._three_parts(out, source, limits)

    def _masked(self, out: str, source: str, limits: Range, masks: Masks) -> None:
        """Vectors whose loads are masked; those of a long row make their masks on the way."""
        w, left = self.w, list(masks)
        count = len(masks) // len(pieces(self.walk.extent, self.vector))

        def group(parts: list[Piece]) -> None:
            for start, kind in parts:
                own, left[:count] = left[:count], []
                if not own:
                    own = self.loads.masks(kind.lanes, start, limits)
                there, at = self._moved(out, source, start)
                w.store(kind, self.loads.vector(kind, at, own), there)

        each_group(w, self.walk.extent, self.vector, group)

    def _three_parts(self, out: str, source: str, limits: Range) -> None:
        """Zeros, a copy, zeros."""
        w, extent, (low, high) = self.w, self.walk.extent, limits
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
