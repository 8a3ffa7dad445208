"""Transforming tiles of images into planes of Winograd's points, and planes into tiles, as LLVM IR.

Vectors run over channels, which lie side by side. For every tile a table says where its pixels are;
those outside of the image are read from a row of zeros, or written to where nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.native.ir import VectorType
from skipjack.solvers.convolution.winograd_lines import Line, Square, transform_square
from skipjack.solvers.convolution.winograd_slots import BLOCK, BlockOfTiles, StageWriter
from skipjack.solvers.loops.entry import share

TILES = (
    *BLOCK,
    *("source", "target", "spare"),
    *("height", "width", "pad_y", "pad_x"),
    *("image_bytes", "row_bytes", "pixel_bytes", "window"),
    *("plane_bytes", "tile_bytes", "group", "group_bytes"),
)
"""Of both kinds. `spare` has zeros, or takes what falls outside; it has room for a block's columns.

The pixels' memory is the whole array, or with a `window` of 1 what a round needs of it. In a plane
the vectors of a tile lie side by side in groups, each of which has all tiles.
"""


@dataclass(frozen=True, slots=True)
class Tiles:
    """What decides the code of a stage."""

    line: Line
    step: int
    """Pixels from tile to tile."""
    vector: VectorType
    tail: bool
    """Whether columns may be no multiple of the lanes."""


def planes_of_tiles(kind: Tiles) -> str:
    """From pixels (`source`) to planes (`target`)."""
    return _TileWriter(kind, reads=True).module()


def tiles_of_planes(kind: Tiles) -> str:
    """From planes (`source`) to pixels (`target`)."""
    return _TileWriter(kind, reads=False).module()


class _TileWriter:
    def __init__(self, kind: Tiles, *, reads: bool) -> None:
        self.kind, self.vector, self.reads = kind, kind.vector, reads
        self.size = kind.line.inputs if reads else kind.line.outputs
        """Pixels of a tile in one direction."""
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
        """Where the memory of the pixels begins: with the array, or with this round's part."""
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
        """Where the pixels of a tile are."""
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
        """All channels, vector by vector: `body` gets the number of one, and a mask at the end."""
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
        """One vector of a tile."""
        pixels, points = Square(self._pixels(table, at), mask), Square(self._points(place, at))
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
