"""An implicit matrix product that computes pixels, as LLVM IR: forward and backward-data.

Rows of the product are pixels, columns their channels, and the reduction runs over taps and the
other channels. The filter is packed into panels as wide as a tile; patches of the source are read
in place, and nothing is multiplied by padding. The loops: blocks of panels, blocks of the channels
to sum over (the filter is packed), blocks of lines of pixels, panels, lines, tiles. Threads share
out lines or panels, and each packs for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skipjack.native import constant_mask
from skipjack.solvers.cpu.conv.implicit_gemm.gather import (
    AxisPart,
    AxisParts,
    Gather,
    TileRun,
    tile_runs,
)
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_tile import PACKING_PARAMETERS as PACKING
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_tile import (
    PARAMETERS,
    PanelPacking,
    PixelForm,
    PixelTile,
    overrun_bytes,
)
from skipjack.solvers.cpu.conv.implicit_gemm.tile import (
    ImplicitTile,
    KernelModule,
    NamedSlots,
    ReductionLoop,
    TileWriter,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter, reduced_lanes, share, task_signature

# Pixels with few channels: vectors hold the channels that are summed over.
#
# If vectors held the channels of an image with three channels, its gradient would leave most
# lanes empty. Here every sum is a vector of partial sums, one for each pixel and channel of a
# tile, and the lanes are added up at the end.


class DotWriter(TileWriter):
    """A tile whose sums are vectors themselves; at every step a column of B is a vector."""

    def __init__(self, w: WholeNumberWriter, tile: ImplicitTile, mask: str | None = None) -> None:
        super().__init__(w, tile)
        self.mask = mask
        """The lanes that a step reads."""

    @property
    def row_sums(self) -> int:
        return self.tile.columns

    def step(self, rows: Sequence[int], a: str, b: str, sums: list[str]) -> list[str]:
        """Multiply a vector of channels of each pixel by one of each column."""
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
        """Add up the lanes; as many adjacent sums as fit into a vector are stored together."""
        assert add is False, "a tile with channels in vectors has all channels in one block"
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
        for first, last in _vector_runs(places, lanes):
            start = first // lanes
            # A run may start in one chunk and end in the next.
            chosen = [0] * lanes
            for at in range(first, last):
                chosen[places[at] - places[first]] = at - start * lanes
            value = w.shuffle(tile.vector, (chunks[start], chunks[start + 1]), chosen)
            there = {places[at] - places[first] for at in range(first, last)}
            mask = "<" + ", ".join(f"i1 {str(at in there).lower()}" for at in range(lanes)) + ">"
            to = w.advance(c, places[first] * item)
            w.store(tile.vector, value, to, None if len(there) == lanes else mask)


def _vector_runs(places: Sequence[int], lanes: int) -> Iterator[tuple[int, int]]:
    """Runs of ascending places that fit into a vector: the first index, and the one after the
    last."""
    first = 0
    for at, place in enumerate(places):
        if place - places[first] >= lanes or place < places[first]:
            yield first, at
            first = at
    yield first, len(places)


class DotTile(PixelTile):
    """A tile of pixels with the summed channels in vectors."""

    def tile_writer(self, tile: ImplicitTile) -> DotWriter:
        return DotWriter(self.w, tile)

    def channels(self, rows: list[int], taps: int, a: str, b: str, sums: list[str]) -> list[str]:
        """Whole vectors of some taps, then the remaining channels."""
        w, lanes = self.w, self.form.vector.lanes
        full, rest = divmod(taps * self.gather.reduced, lanes)
        a_move, b_move = lanes * self.item, lanes * self.step
        sums = self.writer.accumulate(rows, ReductionLoop(full, a_move, b_move), a, b, sums)
        if not rest:
            return sums
        last = DotWriter(w, self.writer.tile, constant_mask(lanes, rest))
        a, b = w.advance(a, full * a_move), w.advance(b, full * b_move)
        return last.accumulate(rows, ReductionLoop(1, a_move, b_move), a, b, sums)


class DotPacking(PanelPacking):
    """Packs vectors of the summed channels, one for each column, tap by tap."""

    def write(self) -> WholeNumberWriter:
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


POINTERS = ("source", "filter", "out", "workspace")
NUMBERS = ("by_panels", "line_block", "panel_block", "depth_block", "thread_bytes")
"""Slots after the shared ones. `by_panels` says what threads share out: 0 lines, 1 panels."""
_PAGE = 4096


def thread_bytes(gather: Gather, form: PixelForm, panels: int, depth: int) -> int:
    """Bytes that a thread packs at a time: `panels` panels of `depth` channels, with all taps."""
    elements = gather.most_taps * form.depth_of(depth) * panels * form.columns
    size = elements * form.vector.item_bytes + overrun_bytes(form)
    return -(-size // _PAGE) * _PAGE


def generate(gather: Gather, form: PixelForm) -> str:
    """The whole module, with ``void @kernel(ptr slots)``."""
    return _Pixels(gather, form).module()


@dataclass(frozen=True, slots=True)
class _Block:
    """The values of a block of panels and channels, for one phase."""

    phase: int
    first: str
    panels: str
    depth: str
    panel_bytes: str


class _Pixels:
    def __init__(self, gather: Gather, form: PixelForm) -> None:
        self.gather, self.form = gather, form
        self.item = form.vector.item_bytes
        self.out = KernelModule(form.vector)
        self.full, self.rest = divmod(gather.columns, form.columns)
        self.panels = self.full + bool(self.rest)

    def module(self) -> str:
        for number, parts in enumerate(self.gather.phases):
            packing = DotPacking if self.form.dots else PanelPacking
            body = packing(self.gather, self.form, parts).write()
            self.out.close(body, f"void @pack{number}({PACKING})")
            for columns in self._widths():
                self._lines_function(number, parts, columns)
        self._task_function()
        return self.out.text()

    def _widths(self) -> list[int]:
        """The columns of full panels, and of the last panel if it has fewer."""
        return [columns for columns in (self.form.columns * bool(self.full), self.rest) if columns]

    def _lines_function(self, number: int, parts: AxisParts, columns: int) -> None:
        """The function for lines of pixels and one panel.

        A line has one depth, height and set of images.
        """
        w, form = WholeNumberWriter(), self.form
        found = tile_runs(parts[2], form.pixels)
        names = [f"tile{number}_{columns}_{at}" for at in range(len(found))]
        for name, run in zip(names, found, strict=True):
            tile = DotTile if form.dots else PixelTile
            body = tile(self.gather, form, parts, run, columns).write()
            self.out.close(body, f"void @{name}({PARAMETERS})")

        def line(counter: str, _: list[str]) -> list[str]:
            a, c, ranges = self._line(w, parts, w.add("%first", counter))
            for name, run in zip(names, found, strict=True):
                self._tiles(w, run, parts[2], (a, c), f"@{name}", ranges)
            return []

        w.loop_or_skip("%lines", [], line)
        parameters = (
            "ptr %source, ptr %panel, ptr %out, i64 %first, i64 %lines, i64 %depth, i1 %add"
        )
        self.out.close(w, f"void @lines{number}_{columns}({parameters})")

    def _line(self, w: WholeNumberWriter, parts: AxisParts, number: str) -> tuple[str, str, str]:
        """The addresses that a line's first pixel reads and writes, and the taps inside."""
        source, out, item = self.gather.source, self.gather.out, self.item
        above, y = w.divided(number, parts[1].count)
        images, z = w.divided(above, parts[0].count)
        images = w.mul(images, self.form.images)
        a = w.advance("%source", w.mul(images, source.image * item))
        c = w.advance("%out", w.mul(images, out.image * item))
        ranges = []
        for axis, place in enumerate((z, y)):
            part = parts[axis]
            begin = w.add(w.mul(place, part.step), part.offset)
            a = w.advance(a, w.mul(begin, source.axes[axis] * item))
            index = w.add(w.mul(place, part.every), part.first)
            c = w.advance(c, w.mul(index, out.axes[axis] * item))
            ranges += _inside(w, part, begin)
        a = w.advance(a, parts[2].offset * source.axes[2] * item)
        c = w.advance(c, parts[2].first * out.axes[2] * item)
        return a, c, ", ".join(f"i64 {value}" for value in ranges)

    def _tiles(
        self,
        w: WholeNumberWriter,
        run: TileRun,
        width: AxisPart,
        at: tuple[str, str],
        tile: str,
        ranges: str,
    ) -> None:
        read = width.step * self.gather.source.axes[2] * self.item
        written = width.every * self.gather.out.axes[2] * self.item

        def body(_: str, here: list[str]) -> list[str]:
            places = f"ptr {here[0]}, ptr %panel, ptr {here[1]}"
            w.emit(f"call void {tile}({places}, {ranges}, i64 %depth, i1 %add)")
            return [
                w.advance(here[0], run.elements * read),
                w.advance(here[1], run.elements * written),
            ]

        starts = [w.advance(at[0], run.begin * read), w.advance(at[1], run.begin * written)]
        w.loop(run.tiles, [("ptr", start) for start in starts], body)

    def _task_function(self) -> None:
        w, gather = NamedSlots(POINTERS, NUMBERS), self.gather
        by_panels = w.value(f"icmp ne i64 {w.given('by_panels')}, 0")
        by_lines = w.value(f"xor i1 {by_panels}, true")

        def part(total: int, mine: str) -> tuple[str, str]:
            begin, end = share(w, total)
            begin = w.value(f"select i1 {mine}, i64 {begin}, i64 0")
            return begin, w.value(f"select i1 {mine}, i64 {end}, i64 {total}")

        panels = part(self.panels, by_panels)

        def group(_: str, at: list[str]) -> list[str]:
            for number, parts in enumerate(gather.phases):
                total = gather.n // self.form.images * parts[0].count * parts[1].count
                self._phase(w, number, panels, part(total, by_lines), at)
            moves = (gather.source.group, gather.filters.group, gather.out.group)
            return [w.advance(p, move * self.item) for p, move in zip(at, moves, strict=True)]

        starts = [("ptr", w.given(name)) for name in POINTERS[:3]]
        w.loop(gather.groups, starts, group)
        self.out.close(w, task_signature())

    def _phase(
        self,
        w: NamedSlots,
        number: int,
        panels: tuple[str, str],
        lines: tuple[str, str],
        at: list[str],
    ) -> None:
        gather, item = self.gather, self.item
        panel_block, depth_block = w.given("panel_block"), w.given("depth_block")
        parts = gather.phases[number]
        step = parts[0].taps * parts[1].taps * parts[2].taps * self.form.columns * item

        def columns(counter: str, _: list[str]) -> list[str]:
            first = w.add(panels[0], w.mul(counter, panel_block))
            have = w.least(w.sub(panels[1], first), panel_block)

            def depths(count: str, _: list[str]) -> list[str]:
                channel = w.mul(count, depth_block)
                depth = w.least(w.sub(gather.reduced, channel), depth_block)
                block = _Block(number, first, have, depth, w.mul(depth, step))
                read = w.advance(at[0], w.mul(channel, item))
                filters = w.advance(at[1], w.mul(channel, gather.filters.reduced * item))
                add = w.value(f"icmp ne i64 {count}, 0")
                packed = self._packed(w, block, filters)
                self._line_blocks(w, block, lines, (read, packed, at[2]), add)
                return []

            w.loop(w.rounds(gather.reduced, depth_block), [], depths)
            return []

        w.loop_or_skip(w.rounds(w.sub(panels[1], panels[0]), panel_block), [], columns)

    def _packed(self, w: NamedSlots, block: _Block, filters: str) -> str:
        """Pack a block of the filter into this thread's workspace; returns its address."""
        gather, width = self.gather, self.form.columns
        workspace = w.advance(w.given("workspace"), w.mul("%index", w.given("thread_bytes")))

        def panel(counter: str, here: list[str]) -> list[str]:
            column = w.mul(w.add(block.first, counter), width)
            count = w.least(w.sub(gather.columns, column), width)
            start = w.advance(filters, w.mul(column, gather.filters.column * self.item))
            given = f"ptr {start}, ptr {here[0]}, i64 {count}, i64 {block.depth}"
            w.emit(f"call void @pack{block.phase}({given})")
            return [w.advance(here[0], block.panel_bytes)]

        w.loop(block.panels, [("ptr", workspace)], panel)
        return workspace

    def _line_blocks(
        self,
        w: NamedSlots,
        block: _Block,
        lines: tuple[str, str],
        at: tuple[str, str, str],
        add: str,
    ) -> None:
        line_block = w.given("line_block")

        def body(counter: str, _: list[str]) -> list[str]:
            first = w.add(lines[0], w.mul(counter, line_block))
            have = w.least(w.sub(lines[1], first), line_block)
            given = f"i64 {first}, i64 {have}, i64 {block.depth}, i1 {add}"
            self._panels(w, block, at, given)
            return []

        w.loop_or_skip(w.rounds(w.sub(lines[1], lines[0]), line_block), [], body)

    def _panels(self, w: NamedSlots, block: _Block, at: tuple[str, str, str], given: str) -> None:
        """Call the functions for a block of lines and a block of panels."""

        def panel(counter: str, here: list[str]) -> list[str]:
            number = w.add(block.first, counter)
            c = w.advance(at[2], w.mul(number, self.form.columns * self.item))

            def lines(columns: int) -> None:
                places = f"ptr {at[0]}, ptr {here[0]}, ptr {c}"
                w.emit(f"call void @lines{block.phase}_{columns}({places}, {given})")

            widths = self._widths()
            if len(widths) == 1:
                lines(widths[0])
            else:
                full = w.value(f"icmp ult i64 {number}, {self.full}")
                w.either(full, lambda: lines(widths[0]), lambda: lines(widths[1]))
            return [w.advance(here[0], block.panel_bytes)]

        w.loop(block.panels, [("ptr", at[1])], panel)


def _inside(w: WholeNumberWriter, part: AxisPart, begin: str) -> list[str]:
    """The first tap inside the source, and the number of taps inside."""
    if part.unpadded:
        return ["0", str(part.taps)]
    first = w.rounds(w.positive(w.sub(0, begin)), part.spread)
    end = w.least(part.taps, w.rounds(w.positive(w.sub(part.size, begin)), part.spread))
    return [first, w.without(end, first)]
