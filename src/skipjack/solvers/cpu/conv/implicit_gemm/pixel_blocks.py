"""The loops over pixels that both ways to the filter's gradient share: blocks, and taps inside.

The slots after the shared ones are `POINTERS`, then `NUMBERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.native import VectorType
from skipjack.operations import Axis, Geometry
from skipjack.solvers.cpu.conv.implicit_gemm.gather import PixelStrides
from skipjack.solvers.cpu.conv.implicit_gemm.tile import NamedSlots

POINTERS = ("image", "result", "out")
NUMBERS = ("rows_inside", "image_block", "depth_block", "line_block", "begun")
"""Whether the inner loop over tiles runs over rows, the blocks of the reduction, and whether to add
to the values in the output."""
_BLOCKS = NUMBERS[1:4]

CountedRange = tuple[str, str]
"""The first index and the count, as i64 values."""


@dataclass(frozen=True, slots=True)
class FilterForm:
    """The part of a config that decides the machine code."""

    rows: int
    """Rows of a tile, at most."""
    vectors: int
    vector: VectorType

    @property
    def columns(self) -> int:
        """Columns of a full tile."""
        return self.vectors * self.vector.lanes


@dataclass(frozen=True, slots=True)
class Division:
    """Parts that cover an extent: all of one size, or the last one smaller."""

    size: int
    count: int
    last: int

    @classmethod
    def of(cls, extent: int, size: int) -> Division:
        """The division of an extent into parts of at most a size."""
        count = -(-extent // size)
        return cls(min(size, extent), count, extent - (count - 1) * size)

    @property
    def sizes(self) -> list[int]:
        """The sizes that occur, the full one first."""
        return list(dict.fromkeys([*[self.size] * (self.count > 1), self.last]))


def by_division(w: NamedSlots, place: str, spread: Division, then: Callable[[int], None]) -> None:
    """Run `then` with the size of the part at an index."""
    sizes = spread.sizes
    if len(sizes) == 1:
        then(sizes[0])
    else:
        last = w.value(f"icmp eq i64 {place}, {spread.count - 1}")
        w.either(last, lambda: then(sizes[1]), lambda: then(sizes[0]))


def over_blocks(
    w: NamedSlots, geometry: Geometry, inside: Callable[[list[CountedRange], str], None]
) -> None:
    """Loops over blocks of images, depth and height; `inside(spans, add)` writes their body."""
    sizes = (geometry.n, *geometry.result_sizes[:2])
    blocks = [w.given(name) for name in _BLOCKS]

    def over(level: int, spans: list[CountedRange], done: str) -> None:
        if level == len(sizes):
            inside(spans, w.value(f"icmp ne i64 {done}, 0"))
            return

        def body(number: str, _: list[str]) -> list[str]:
            start = w.mul(number, blocks[level])
            count = w.least(w.sub(sizes[level], start), blocks[level])
            over(level + 1, [*spans, (start, count)], w.add(done, number))
            return []

        w.loop(w.rounds(sizes[level], blocks[level]), [], body)

    over(0, [], w.given("begun"))


def tile_at(w: NamedSlots, number: str, rows: Division, columns: Division) -> CountedRange:
    """Row and column of a tile from its number, in the order given by the slot `rows_inside`."""
    inside = w.value(f"icmp ne i64 {w.given('rows_inside')}, 0")
    by_rows = w.divided(number, columns.count)
    by_columns = w.divided(number, rows.count)
    row = w.value(f"select i1 {inside}, i64 {by_columns[1]}, i64 {by_rows[0]}")
    column = w.value(f"select i1 {inside}, i64 {by_columns[0]}, i64 {by_rows[1]}")
    return row, column


class PixelRanges:
    """Moves pointers into image and result to the first pixels that a tap reads inside."""

    def __init__(self, w: NamedSlots, geometry: Geometry, item: int) -> None:
        self.w, self.geometry, self.item = w, geometry, item
        self.image = PixelStrides.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        self.result = PixelStrides.channels_last(geometry.result_sizes, geometry.k, geometry.groups)

    def move(
        self, image: str, result: str, spans: list[CountedRange], taps: list[str]
    ) -> tuple[str, str, list[str]]:
        """The pointers moved along the images and an axis for each tap, and the counts of each."""
        w, item = self.w, self.item
        first, count = spans[0]
        image = w.advance(image, w.mul(first, self.image.image * item))
        result = w.advance(result, w.mul(first, self.result.image * item))
        counts = [count]
        for axis, (tap, span) in enumerate(zip(taps, spans[1:], strict=True)):
            low, count, place = _inside(w, self.geometry.axes[axis], tap, span)
            image = w.advance(image, w.mul(place, self.image.axes[axis] * item))
            result = w.advance(result, w.mul(low, self.result.axes[axis] * item))
            counts.append(count)
        return image, result, counts


def _inside(w: NamedSlots, axis: Axis, tap: str, span: CountedRange) -> tuple[str, str, str]:
    """Pixels of a span whose tap is inside the image: the first, their number, the pixel it
    reads."""
    begin, count = span
    if axis.filter == 1 and axis.pad == 0:
        return begin, count, w.mul(begin, axis.stride)
    offset = w.sub(w.mul(tap, axis.dilation), axis.pad)
    low = w.most(w.rounds(w.positive(w.sub(0, offset)), axis.stride), begin)
    beyond = w.rounds(w.positive(w.sub(axis.image, offset)), axis.stride)
    high = w.least(beyond, w.add(begin, count))
    return low, w.without(high, low), w.add(w.mul(low, axis.stride), offset)
