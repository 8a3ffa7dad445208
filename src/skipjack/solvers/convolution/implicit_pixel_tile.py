"""One tile of pixels by channels: the loops over its taps and over the channels that are summed.

A tile's rows are neighbours along the width, in one image or at the same place of several. Taps of
depth and height are then inside of the source for all rows or for none, and the caller says which
are; along the width each tap leaves out the rows that it does not find inside.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import VectorType
from skipjack.solvers.convolution.implicit_axes import Run, Span
from skipjack.solvers.convolution.implicit_gather import Gather, Parts
from skipjack.solvers.convolution.implicit_tile import Tile, TileWriter, Walk
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, "
    "i64 %t0, i64 %n0, i64 %t1, i64 %n1, i64 %depth, i1 %add"
)
"""A's pointer is where the first row's first tap would be, inside or not; first taps and numbers
of taps along depth and height follow, then the number of channels to sum over."""


@dataclass(frozen=True, slots=True)
class PixelForm:
    """What of a config decides the machine code."""

    images: int
    """That a tile takes pixels of."""
    pixels: int
    """Along the width, at most."""
    vectors: int
    whole: bool
    """Whether the channels to sum over are one block."""
    vector: VectorType
    dots: bool = False
    """Whether vectors hold channels to sum over (`implicit_dots`): then a column is a vector."""

    @property
    def columns(self) -> int:
        """Of a panel."""
        return self.vectors if self.dots else self.vectors * self.vector.lanes

    def depth_of(self, channels: int) -> int:
        """Rows of a panel for so many channels to sum over."""
        lanes = self.vector.lanes
        return -(-channels // lanes) * lanes if self.dots else channels


class PixelTile:
    """Writes the body of a function with `PARAMETERS`."""

    def __init__(
        self, gather: Gather, form: PixelForm, parts: Parts, run: Run, columns: int
    ) -> None:
        self.gather, self.form, self.parts, self.run = gather, form, parts, run
        self.item = form.vector.item_bytes
        self.w = WholeNumberWriter()
        self.writer = self.tile_writer(self._tile(columns))
        self.step = form.columns * self.item
        self.tap: int | str = form.depth_of(gather.reduced) * self.step
        if not form.whole:
            self.tap = self.w.mul("%depth", self.step)

    def tile_writer(self, tile: Tile) -> TileWriter:
        """For this tile."""
        return TileWriter(self.w, tile)

    def _tile(self, columns: int) -> Tile:
        source, out, width = self.gather.source, self.gather.out, self.parts[2]
        read, written = width.step * source.axes[2], width.every * out.axes[2]
        places = [(i, at) for i in range(self.form.images) for at in range(self.run.elements)]
        return Tile(
            tuple((i * source.image + at * read) * self.item for i, at in places),
            tuple((i * out.image + at * written) * self.item for i, at in places),
            columns,
            self.form.vector,
        )

    def write(self) -> WholeNumberWriter:
        """All of it but the return."""
        sums = self._over(0, "%a", "%b", self.writer.zeros())
        self.writer.write(sums, "%c", False if self.form.whole else "%add")
        return self.w

    def _over(self, axis: int, a: str, b: str, sums: list[str]) -> list[str]:
        """Taps along depth and height that are inside."""
        if axis == 2:
            return self._across(a, b, sums)
        w, part = self.w, self.parts[axis]
        if part.taps == 1 and part.unpadded:
            return self._over(axis + 1, a, b, sums)
        a_move = part.spread * self.gather.source.axes[axis] * self.item
        taps = 1
        for inner in self.parts[axis + 1 :]:
            taps *= inner.taps
        b_move = w.mul(self.tap, taps)
        start = f"%t{axis}"
        a, b = w.advance(a, w.mul(start, a_move)), w.advance(b, w.mul(start, b_move))
        walk = Walk(f"%n{axis}", a_move, b_move)
        return self.writer.around(walk, a, b, sums, lambda *at: self._over(axis + 1, *at))

    def _across(self, a: str, b: str, sums: list[str]) -> list[str]:
        """Taps along the width: a loop over channels for each, or for several at once."""
        w, elements = self.w, self.run.elements
        tap_bytes = self.parts[2].spread * self.gather.source.axes[2] * self.item
        done = 0
        for span, taps in self._segments():
            rows = [i * elements + at for i in range(self.form.images) for at in range(*span)]
            a_at = w.advance(a, done * tap_bytes)
            b_at = w.advance(b, w.mul(self.tap, done)) if done else b
            sums = self.channels(rows, taps, a_at, b_at, sums)
            done += taps
        return sums

    def channels(self, rows: list[int], taps: int, a: str, b: str, sums: list[str]) -> list[str]:
        """All channels of some taps side by side."""
        rounds = taps * self.gather.reduced if self.form.whole else "%depth"
        return self.writer.accumulate(rows, Walk(rounds, self.item, self.step), a, b, sums)

    def _segments(self) -> list[tuple[Span, int]]:
        """Taps with the rows they meet; those with the same rows are one where memory allows it."""
        spread = self.parts[2].spread * self.gather.source.axes[2]
        joined = self.form.whole and spread == self.form.depth_of(self.gather.reduced)
        segments: list[tuple[Span, int]] = []
        for span in self.run.active:
            if joined and segments and segments[-1][0] == span:
                segments[-1] = (span, segments[-1][1] + 1)
            else:
                segments.append((span, 1))
        return segments
