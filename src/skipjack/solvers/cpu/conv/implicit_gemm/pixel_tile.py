"""A tile of pixels by channels, and the packing of the panel of the filter that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from skipjack.native import VectorType, constant_mask
from skipjack.solvers.cpu.conv.implicit_gemm.gather import AxisParts, Gather, Span, TileRun
from skipjack.solvers.cpu.conv.implicit_gemm.tile import ImplicitTile, ReductionLoop, TileWriter
from skipjack.solvers.cpu.ir import WholeNumberWriter, transpose

# The tile.
#
# The rows of a tile are neighbours along the width, in one image or at the same place of several
# images. A tap of depth and height is then inside the source for all rows or for none, and the
# caller says which are inside; along the width each tap skips the rows that would read outside.

PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, "
    "i64 %t0, i64 %n0, i64 %t1, i64 %n1, i64 %depth, i1 %add"
)
"""A's pointer is the address of the first row's first tap, even if it is outside; then follow the
first tap and the number of taps along depth and height, and the number of channels to sum over."""


@dataclass(frozen=True, slots=True)
class PixelForm:
    """The part of a config that decides the machine code."""

    images: int
    """Images whose pixels are in a tile."""
    pixels: int
    """Pixels of a tile along the width, at most."""
    vectors: int
    whole: bool
    """Whether the channels to sum over are one block."""
    vector: VectorType
    dots: bool = False
    """Whether vectors hold channels to sum over (`DotTile`): then a column is a vector."""

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors if self.dots else self.vectors * self.vector.lanes

    def depth_of(self, channels: int) -> int:
        """Rows of a panel for a number of channels to sum over."""
        lanes = self.vector.lanes
        return -(-channels // lanes) * lanes if self.dots else channels


class PixelTile:
    """Writes the body of a function with `PARAMETERS`."""

    def __init__(
        self, gather: Gather, form: PixelForm, parts: AxisParts, run: TileRun, columns: int
    ) -> None:
        self.gather, self.form, self.parts, self.run = gather, form, parts, run
        self.item = form.vector.item_bytes
        self.w = WholeNumberWriter()
        self.writer = self.tile_writer(self._tile(columns))
        self.step = form.columns * self.item
        self.tap: int | str = form.depth_of(gather.reduced) * self.step
        if not form.whole:
            self.tap = self.w.mul("%depth", self.step)

    def tile_writer(self, tile: ImplicitTile) -> TileWriter:
        return TileWriter(self.w, tile)

    def _tile(self, columns: int) -> ImplicitTile:
        source, out, width = self.gather.source, self.gather.out, self.parts[2]
        read, written = width.step * source.axes[2], width.every * out.axes[2]
        places = [(i, at) for i in range(self.form.images) for at in range(self.run.elements)]
        return ImplicitTile(
            tuple((i * source.image + at * read) * self.item for i, at in places),
            tuple((i * out.image + at * written) * self.item for i, at in places),
            columns,
            self.form.vector,
        )

    def write(self) -> WholeNumberWriter:
        """Write everything except the return."""
        sums = self._over(0, "%a", "%b", self.writer.zeros())
        self.writer.write(sums, "%c", False if self.form.whole else "%add")
        return self.w

    def _over(self, axis: int, a: str, b: str, sums: list[str]) -> list[str]:
        """Loops over the taps along depth and height that are inside."""
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
        loop = ReductionLoop(f"%n{axis}", a_move, b_move)
        return self.writer.around(loop, a, b, sums, lambda *at: self._over(axis + 1, *at))

    def _across(self, a: str, b: str, sums: list[str]) -> list[str]:
        """Taps along the width: a loop over channels for each tap, or for several taps."""
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
        """A loop over all channels of some adjacent taps."""
        rounds = taps * self.gather.reduced if self.form.whole else "%depth"
        return self.writer.accumulate(rows, ReductionLoop(rounds, self.item, self.step), a, b, sums)

    def _segments(self) -> list[tuple[Span, int]]:
        """Taps with the rows that use them; taps with the same rows are joined if they are
        contiguous."""
        spread = self.parts[2].spread * self.gather.source.axes[2]
        joined = self.form.whole and spread == self.form.depth_of(self.gather.reduced)
        segments: list[tuple[Span, int]] = []
        for span in self.run.active:
            if joined and segments and segments[-1][0] == span:
                segments[-1] = (span, segments[-1][1] + 1)
            else:
                segments.append((span, 1))
        return segments


# Packing a panel of the filter.
#
# A panel has, for each tap of a phase and each channel to sum over, the filter's elements of
# neighbouring columns side by side. The method depends on which axis of the filter lies side by
# side in memory, which depends on direction and layout:
#
# - the columns: vectors are copied
# - the channels to sum over: tiles of channels and columns are transposed in registers
# - the taps (channels first): tiles of taps and columns are transposed in registers
#
# Columns that do not fill a vector are copied one by one if tiles are transposed. Missing
# columns are uninitialized: results computed from them are never stored.

PACKING_PARAMETERS = "ptr noalias %from, ptr noalias %to, i64 %count, i64 %depth"
"""Columns of the panel, and channels to sum over."""


def overrun_bytes(form: PixelForm) -> int:
    """Bytes after the last panel that transposed tiles may write."""
    return form.vector.lanes * form.columns * form.vector.item_bytes


class PanelPacking:
    """Writes the body of a function with `PACKING_PARAMETERS` for one phase."""

    def __init__(self, gather: Gather, form: PixelForm, parts: AxisParts) -> None:
        self.filters, self.parts = gather.filters, parts
        self.vector, self.scalar = form.vector, VectorType(form.vector.dtype, 1)
        self.lanes, self.item = form.vector.lanes, form.vector.item_bytes
        self.vectors = form.vectors
        self.step = form.columns * self.item
        self.column, self.down = (
            each * self.item for each in (self.filters.column, self.filters.reduced)
        )
        self.w = WholeNumberWriter()
        self.tap_bytes = self.w.mul("%depth", self.step)

    def write(self) -> WholeNumberWriter:
        """Write everything except the return."""
        if self.filters.column == 1:
            self.taps("%from", "%to", self._rows)
        elif self.filters.reduced == 1:
            self._blocks(lambda at, to: self.taps(at, to, self._transposed_channels))
        else:
            self._blocks(self._transposed_taps)
        return self.w

    def taps(self, source: str, target: str, inside: Callable[[str, str], None]) -> None:
        """Write a loop over the taps."""
        w = self.w

        def over(axis: int, at: str, to: str) -> str:
            if axis == 3:
                inside(at, to)
                return w.advance(to, self.tap_bytes)
            part, stride = self.parts[axis], self.filters.axes[axis] * self.item
            if not part.taps:
                return to
            start = w.advance(at, part.tap * stride)

            def body(_: str, here: list[str]) -> list[str]:
                after = over(axis + 1, here[0], here[1])
                return [w.advance(here[0], part.tap_step * stride), after]

            return w.loop(part.taps, [("ptr", start), ("ptr", to)], body)[1]

        over(0, source, target)

    def _rows(self, source: str, target: str) -> None:
        """Columns lie side by side: copy channel by channel."""
        w, width = self.w, self.lanes * self.item
        masks = [
            w.first_lanes(self.lanes, w.without("%count", part * self.lanes))
            for part in range(self.vectors)
        ]

        def body(_: str, here: list[str]) -> list[str]:
            for part, mask in enumerate(masks):
                value = w.load(self.vector, w.advance(here[0], part * width), mask)
                w.store(self.vector, value, w.advance(here[1], part * width))
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], body)

    def _blocks(self, transposed: Callable[[str, str], None]) -> None:
        """A loop over blocks of as many columns as lanes; the last block may have fewer."""
        w, lanes = self.w, self.lanes

        def block(number: str, here: list[str]) -> list[str]:
            have = w.without("%count", w.mul(number, lanes))

            def some() -> None:
                self.taps(here[0], here[1], lambda at, to: self._one_by_one(at, to, have))

            full = w.value(f"icmp uge i64 {have}, {lanes}")
            w.either(full, lambda: transposed(here[0], here[1]), some)
            return [w.advance(here[0], lanes * self.column), w.advance(here[1], lanes * self.item)]

        w.loop(self.vectors, [("ptr", "%from"), ("ptr", "%to")], block)

    def _one_by_one(self, source: str, target: str, have: str) -> None:
        w = self.w

        def element(_: str, here: list[str]) -> list[str]:
            w.store(self.scalar, w.load(self.scalar, here[0]), here[1])
            return [w.advance(here[0], self.column), w.advance(here[1], self.item)]

        def channel(_: str, here: list[str]) -> list[str]:
            w.loop_or_skip(have, [("ptr", here[0]), ("ptr", here[1])], element)
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], channel)

    def _transposed_channels(self, source: str, target: str) -> None:
        """Channels lie side by side.

        The last tile writes beyond the tap; the next tap overwrites that.
        """
        w, width = self.w, self.lanes * self.item

        def square(number: str, here: list[str]) -> list[str]:
            left = w.sub("%depth", w.mul(number, self.lanes))
            mask = w.first_lanes(self.lanes, left)
            rows = [
                w.load(self.vector, w.advance(here[0], row * self.column), mask)
                for row in range(self.lanes)
            ]
            for at, value in enumerate(transpose(w, self.vector, rows)):
                w.store(self.vector, value, w.advance(here[1], at * self.step))
            return [w.advance(here[0], width), w.advance(here[1], self.lanes * self.step)]

        w.loop(w.rounds("%depth", self.lanes), [("ptr", source), ("ptr", target)], square)

    def _transposed_taps(self, source: str, target: str) -> None:
        """Taps lie side by side; only those of this phase are kept."""
        w, lanes = self.w, self.lanes
        places = self._tap_places()
        offsets = {tap: w.mul(self.tap_bytes, at) if at else "0" for tap, at in places.items()}

        def channel(_: str, here: list[str]) -> list[str]:
            for start in range(0, max(places, default=-1) + 1, lanes):
                wanted = [tap for tap in range(start, start + lanes) if tap in places]
                if not wanted:
                    continue
                # Do not read beyond the last tap: the array may end there.
                mask = constant_mask(lanes, wanted[-1] + 1 - start)
                rows = [
                    w.load(
                        self.vector,
                        w.advance(here[0], row * self.column + start * self.item),
                        mask,
                    )
                    for row in range(lanes)
                ]
                transposed = transpose(w, self.vector, rows)
                for tap in wanted:
                    w.store(self.vector, transposed[tap - start], w.advance(here[1], offsets[tap]))
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], channel)

    def _tap_places(self) -> dict[int, int]:
        """The index in the phase of each of its taps of the filter."""
        numbers = [
            [part.tap + at * part.tap_step for at in range(part.taps)] for part in self.parts
        ]
        strides = self.filters.axes
        taps = [
            sum(at * stride for at, stride in zip(tap, strides, strict=True))
            for tap in product(*numbers)
        ]
        return {tap: at for at, tap in enumerate(taps)}
