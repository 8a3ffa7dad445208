"""Stages between images and planes: transforms of tiles, transposes of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.native import VectorType
from skipjack.solvers.cpu.conv.winograd.stage_code import (
    BLOCK,
    BlockOfTiles,
    StageWriter,
    copy_elements,
    line_starts,
    transpose_square,
)
from skipjack.solvers.cpu.conv.winograd.transforms import (
    LineTransform,
    SquarePlaces,
    transform_square,
)
from skipjack.solvers.cpu.ir import share

# Transforming tiles of images into planes of Winograd's points, and planes into tiles.
#
# Vectors hold channels, which lie side by side. For every tile a table has the addresses of its
# pixels; pixels outside the image are read from a row of zeros, or written to a row that is not
# used.

TILES = (
    *BLOCK,
    *("source", "target", "spare"),
    *("height", "width", "pad_y", "pad_x"),
    *("image_bytes", "row_bytes", "pixel_bytes", "window"),
    *("plane_bytes", "tile_bytes", "group", "group_bytes"),
)
"""Slots of both kinds of stages. `spare` has zeros, or receives pixels outside the image; it has
room for the columns of a block.

The memory of the pixels is the whole array, or, if `window` is 1, the part that a round needs. In a
plane the vectors of a tile lie side by side in groups, each of which has all tiles.
"""


@dataclass(frozen=True, slots=True)
class TileTransform:
    """The parameters of the code of a stage."""

    line: LineTransform
    step: int
    """Distance between tiles in pixels."""
    vector: VectorType
    tail: bool
    """Whether the number of columns may not be a multiple of the lanes."""


def planes_of_tiles(kind: TileTransform) -> str:
    """The module that transforms pixels (`source`) to planes (`target`)."""
    return _TileWriter(kind, reads=True).module()


def tiles_of_planes(kind: TileTransform) -> str:
    """The module that transforms planes (`source`) to pixels (`target`)."""
    return _TileWriter(kind, reads=False).module()


class _TileWriter:
    def __init__(self, kind: TileTransform, *, reads: bool) -> None:
        self.kind, self.vector, self.reads = kind, kind.vector, reads
        self.size = kind.line.inputs if reads else kind.line.outputs
        """Pixels of a tile along one axis."""
        self.width = kind.vector.lanes * kind.vector.item_bytes
        self.w = w = StageWriter(TILES)
        points = max(kind.line.inputs, kind.line.outputs)
        self.across = [w.mul(w["plane_bytes"], column) for column in range(points)]
        self.down = w.mul(w["plane_bytes"], points)

    def module(self) -> str:
        w = self.w
        table = w.value(f"alloca [{self.size**2} x ptr], align 64")
        block = w.block_of_tiles()
        first, columns = w.block_of_columns()
        pixels, planes = ("source", "target") if self.reads else ("target", "source")
        if self.reads:
            self._clear(columns)
        start = self._window(w[pixels], first, block)
        begin, end = share(w, block.count)

        def tile(counter: str, _: list[str]) -> list[str]:
            number = w.add(begin, counter)
            self._fill(table, start, number, block)
            place = w.advance(w[planes], w.mul(number, w["tile_bytes"]))
            self._vectors(columns, lambda at, mask: self._transform(table, place, at, mask))
            return []

        w.loop_or_skip(w.sub(end, begin), [], tile)
        return w.module(self.vector)

    def _window(self, pixels: str, column: str, block: BlockOfTiles) -> str:
        """The start of the memory of the pixels: the array, or the part of this round."""
        w = self.w
        part = w.value(f"icmp ne i64 {w['window']}, 0")
        top = w.not_negative(w.sub(w.mul(block.first_row, self.kind.step), w["pad_y"]))
        self.first_row = w.value(f"select i1 {part}, i64 {top}, i64 0")
        self.first_image = w.value(f"select i1 {part}, i64 0, i64 {block.first_image}")
        first = w.value(f"select i1 {part}, i64 0, i64 {column}")
        return w.advance(pixels, w.mul(first, self.vector.item_bytes))

    def _clear(self, columns: str) -> None:
        w, zero = self.w, self.vector.constant(0.0)

        def one(_: str, at: list[str]) -> list[str]:
            w.store(self.vector, zero, at[0])
            return [w.advance(at[0], self.width)]

        w.loop(w.rounds(columns, self.vector.lanes), [("ptr", w["spare"])], one)

    def _fill(self, table: str, pixels: str, number: str, block: BlockOfTiles) -> None:
        """Fill the table with the addresses of the pixels of a tile."""
        w, step = self.w, self.kind.step
        row, column = w.divided(number, w["tile_columns"])
        image, row = w.divided(row, block.rows)
        top = w.sub(w.mul(w.add(row, block.first_row), step), w["pad_y"])
        left = w.sub(w.mul(column, step), w["pad_x"])
        start = w.advance(pixels, w.mul(w.add(image, self.first_image), w["image_bytes"]))
        start = w.advance(start, w.mul(w.sub(top, self.first_row), w["row_bytes"]))
        start = w.advance(start, w.mul(left, w["pixel_bytes"]))
        inside = [w.value(f"icmp ult i64 {w.add(left, x)}, {w['width']}") for x in range(self.size)]

        def line(y: str, at: list[str]) -> list[str]:
            place, entry = at
            outside = w.value(f"icmp uge i64 {w.add(top, y)}, {w['height']}")
            for x in range(self.size):
                there = w.value(f"select i1 {inside[x]}, ptr {place}, ptr {w['spare']}")
                there = w.value(f"select i1 {outside}, ptr {w['spare']}, ptr {there}")
                w.emit(f"store ptr {there}, ptr {w.advance(entry, 8 * x)}, align 8")
                place = w.advance(place, w["pixel_bytes"])
            return [w.advance(at[0], w["row_bytes"]), w.advance(entry, 8 * self.size)]

        w.loop(self.size, [("ptr", start), ("ptr", table)], line)

    def _vectors(self, columns: str, body: Callable[[str, str | None], None]) -> None:
        """Loop over the vectors of channels; `body` gets the index, and a mask for the last one."""
        w = self.w
        full, rest = w.divided(columns, self.vector.lanes)

        def one(number: str, _: list[str]) -> list[str]:
            body(number, None)
            return []

        w.loop_or_skip(full, [], one)
        if self.kind.tail:
            some = w.value(f"icmp ne i64 {rest}, 0")
            w.when(some, lambda: body(full, w.first_lanes(self.vector.lanes, rest)))

    def _transform(self, table: str, place: str, at: str, mask: str | None) -> None:
        """Transform one vector of channels of a tile."""
        pixels, points = (
            SquarePlaces(self._pixels(table, at), mask),
            SquarePlaces(self._points(place, at)),
        )
        source, target = (pixels, points) if self.reads else (points, pixels)
        transform_square(self.w, self.vector, self.kind.line, source, target)

    def _pixels(self, table: str, at: str) -> Callable[[int, int], str]:
        w, offset = self.w, self.w.mul(at, self.width)

        def pixel(row: int, column: int) -> str:
            entry = w.advance(table, 8 * (row * self.size + column))
            return w.advance(w.value(f"load ptr, ptr {entry}, align 8"), offset)

        return pixel

    def _points(self, place: str, at: str) -> Callable[[int, int], str]:
        w = self.w
        group, inside = w.divided(at, w["group"])
        here = w.advance(place, w.mul(group, w["group_bytes"]))
        rows = [w.advance(here, w.mul(inside, self.width))]
        for _ in self.across[1:]:
            rows.append(w.advance(rows[-1], self.down))
        return lambda row, column: w.advance(rows[row], self.across[column] if column else 0)


# Transposing images whose channels come first so that channels lie side by side, and back.
#
# A round transposes the rows of pixels that its tiles need into a buffer of its own. Square
# tiles of channels and pixels are transposed in registers; remaining pixels are copied one by
# one. The buffer has room for whole vectors of channels.

TRANSPOSE = (
    *BLOCK,
    *("source", "target"),
    *("step", "reach", "pad_y", "height", "width"),
    *("image_bytes", "channel_bytes", "buffer_image_bytes", "pixel_bytes"),
)
"""Tiles are `step` pixels apart and cover `reach` more. `pixel_bytes` is the stride of the
buffer."""


def transposed_in(vector: VectorType) -> str:
    """The module that transposes the image (`source`) into the buffer (`target`)."""
    return _TransposeWriter(vector, inwards=True).module()


def transposed_out(vector: VectorType) -> str:
    """The module that transposes the buffer (`source`) into the image (`target`)."""
    return _TransposeWriter(vector, inwards=False).module()


class _TransposeWriter:
    def __init__(self, vector: VectorType, *, inwards: bool) -> None:
        self.vector, self.inwards = vector, inwards
        self.lanes, self.item = vector.lanes, vector.item_bytes
        self.width = self.lanes * self.item
        self.w = StageWriter(TRANSPOSE)

    def module(self) -> str:
        w = self.w
        block = w.block_of_tiles()
        top, pixels = self._pixels(block.first_row, block.rows)
        first, columns = w.block_of_columns()
        groups = w.rounds(columns, self.lanes)
        begin, end = share(w, w.mul(block.images, groups))
        image_at, buffer_at = ("source", "target") if self.inwards else ("target", "source")
        start = w.advance(w[image_at], w.mul(block.first_image, w["image_bytes"]))
        start = w.advance(start, w.mul(first, w["channel_bytes"]))
        start = w.advance(start, w.mul(top, self.item))

        def group(counter: str, _: list[str]) -> list[str]:
            image, number = w.divided(w.add(begin, counter), groups)
            channel = w.mul(number, self.lanes)
            have = w.least(w.sub(columns, channel), self.lanes)
            here = w.advance(start, w.mul(image, w["image_bytes"]))
            here = w.advance(here, w.mul(channel, w["channel_bytes"]))
            buffer = w.advance(w[buffer_at], w.mul(image, w["buffer_image_bytes"]))
            self._group(here, w.advance(buffer, w.mul(number, self.width)), have, pixels)
            return []

        w.loop_or_skip(w.sub(end, begin), [], group)
        return w.module(self.vector)

    def _pixels(self, row: str, rows: str) -> tuple[str, str]:
        """The first pixel of a block, and the number of consecutive pixels."""
        w = self.w
        top = w.not_negative(w.sub(w.mul(row, w["step"]), w["pad_y"]))
        bottom = w.sub(w.add(w.mul(w.add(row, rows), w["step"]), w["reach"]), w["pad_y"])
        count = w.sub(w.least(bottom, w["height"]), top)
        return w.mul(top, w["width"]), w.mul(count, w["width"])

    def _group(self, image: str, buffer: str, have: str, pixels: str) -> None:
        """A vector of channels at all pixels; `have` of the channels exist."""
        w = self.w
        channels = line_starts(w, image, w["channel_bytes"], have, self.lanes)
        full, rest = w.divided(pixels, self.lanes)

        def square(_: str, at: list[str]) -> list[str]:
            *here, there = at
            self._square(here, there)
            moved = [w.advance(channel, self.width) for channel in here]
            return [*moved, w.advance(there, w.mul(w["pixel_bytes"], self.lanes))]

        ends = w.loop_or_skip(full, [("ptr", each) for each in [*channels, buffer]], square)
        sides = [
            (ends[0], [str(self.item), w["channel_bytes"]]),
            (ends[-1], [w["pixel_bytes"], str(self.item)]),
        ]
        source, target = sides if self.inwards else reversed(sides)
        copy_elements(w, self.vector, [rest, have], source, target)

    def _square(self, channels: list[str], buffer: str) -> None:
        w, vector = self.w, self.vector
        pixels = [buffer]
        for _ in range(self.lanes - 1):
            pixels.append(w.advance(pixels[-1], w["pixel_bytes"]))
        source, target = (channels, pixels) if self.inwards else (pixels, channels)
        transpose_square(w, vector, source, target)
