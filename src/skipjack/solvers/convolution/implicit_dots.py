"""Pixels with few channels: vectors hold the channels that are summed over.

The gradient of an image of three channels would leave most lanes empty if its channels lay in
vectors. Here every sum is a vector of partial sums, one for each pixel and channel of a tile, and
the lanes are added up at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.implicit_packing import PanelPacking
from skipjack.solvers.convolution.implicit_pixel_tile import PixelTile
from skipjack.solvers.convolution.implicit_tile import Tile, TileWriter, Walk
from skipjack.solvers.loops.lane_sums import reduced_lanes
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


class DotWriter(TileWriter):
    """A tile of sums that are vectors themselves; a column of B is a vector at every step."""

    def __init__(self, w: WholeNumberWriter, tile: Tile, mask: str | None = None) -> None:
        super().__init__(w, tile)
        self.mask = mask
        """Which lanes a step reads."""

    @property
    def row_sums(self) -> int:
        """One for each column."""
        return self.tile.columns

    def step(self, rows: Sequence[int], a: str, b: str, sums: list[str]) -> list[str]:
        """A vector of channels of each pixel by one of each column."""
        w, tile = self.w, self.tile
        columns = [
            w.load(tile.vector, w.advance(b, column * tile.width), self.mask)
            for column in range(tile.columns)
        ]
        after = []
        for number, row in enumerate(rows):
            channels = w.load(tile.vector, w.advance(a, tile.a_rows[row]), self.mask)
            for at, column in enumerate(columns):
                before = sums[number * tile.columns + at]
                after.append(w.call(tile.vector, "fmuladd", [channels, column, before]))
        return after

    def write(self, sums: list[str], c: str, add: str | bool) -> None:
        """Add up lanes; as many sums as fit side by side into a vector are stored at once."""
        assert add is False, "all channels are one block"
        w, tile, lanes = self.w, self.tile, self.tile.vector.lanes
        item = tile.vector.item_bytes
        zero = tile.vector.constant(0.0)
        chunks = []
        for start in range(0, len(sums), lanes):
            some = sums[start : start + lanes]
            some += [zero] * (lanes - len(some))
            chunks.append(reduced_lanes(w, tile.vector, "sum", some)[1])
        chunks.append("poison")
        places = [place // item + column for place in tile.c_rows for column in range(tile.columns)]
        for first, last in _windows(places, lanes):
            start = first // lanes
            # A window may begin in one chunk and end in the next.
            chosen = [0] * lanes
            for at in range(first, last):
                chosen[places[at] - places[first]] = at - start * lanes
            value = w.shuffle(tile.vector, (chunks[start], chunks[start + 1]), chosen)
            there = {places[at] - places[first] for at in range(first, last)}
            mask = "<" + ", ".join(f"i1 {str(at in there).lower()}" for at in range(lanes)) + ">"
            to = w.advance(c, places[first] * item)
            w.store(tile.vector, value, to, None if len(there) == lanes else mask)


def _windows(places: Sequence[int], lanes: int) -> Iterator[tuple[int, int]]:
    """Runs of ascending places that a vector reaches, as numbers of the first and one behind."""
    first = 0
    for at, place in enumerate(places):
        if place - places[first] >= lanes or place < places[first]:
            yield first, at
            first = at
    yield first, len(places)


class DotTile(PixelTile):
    """As other tiles of pixels, with channels in vectors."""

    def tile_writer(self, tile: Tile) -> DotWriter:
        """For this tile."""
        return DotWriter(self.w, tile)

    def channels(self, rows: list[int], taps: int, a: str, b: str, sums: list[str]) -> list[str]:
        """Whole vectors of some taps, then the channels that are left of one."""
        w, lanes = self.w, self.form.vector.lanes
        full, rest = divmod(taps * self.gather.reduced, lanes)
        a_move, b_move = lanes * self.item, lanes * self.step
        sums = self.writer.accumulate(rows, Walk(full, a_move, b_move), a, b, sums)
        if not rest:
            return sums
        last = DotWriter(w, self.writer.tile, constant_mask(lanes, rest))
        a, b = w.advance(a, full * a_move), w.advance(b, full * b_move)
        return last.accumulate(rows, Walk(1, a_move, b_move), a, b, sums)


class DotPacking(PanelPacking):
    """Tap by tap, vectors of channels to sum over, one for each column. Few, so one by one."""

    def write(self) -> WholeNumberWriter:
        """All of it but the return."""
        w = self.w
        blocks = w.mul(w.rounds("%depth", self.lanes), self.lanes)
        self.tap_bytes = w.mul(blocks, self.step)
        self.taps("%from", "%to", self._tap)
        return w

    def _tap(self, source: str, target: str) -> None:
        w, width = self.w, self.lanes * self.item

        def channel(number: str, here: list[str]) -> list[str]:
            block, lane = w.divided(number, self.lanes)
            to = w.advance(target, w.mul(block, self.lanes * self.step))
            to = w.advance(to, w.mul(lane, self.item))

            def column(_: str, at: list[str]) -> list[str]:
                w.store(self.scalar, w.load(self.scalar, at[0]), at[1])
                return [w.advance(at[0], self.column), w.advance(at[1], width)]

            w.loop("%count", [("ptr", here[0]), ("ptr", to)], column)
            return [w.advance(here[0], self.down)]

        w.loop("%depth", [("ptr", source)], channel)
