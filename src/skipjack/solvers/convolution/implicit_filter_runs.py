"""The filter's gradient where the image has few channels, as LLVM IR.

Columns of the product are channels of the result, so that they fill vectors; rows are the taps
along the width with the image's channels, which lie side by side in the image. There is a product
for each tap of depth and height, and the reduction runs over pixels. Near the borders, pixels leave
out the rows whose tap is padding. What is computed has the result's channels last: it is turned
round afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from skipjack.operations.conv_geometry import Axis, Geometry
from skipjack.solvers.convolution.implicit_axes import Span as Numbers
from skipjack.solvers.convolution.implicit_axes import even, forward_part
from skipjack.solvers.convolution.implicit_gather import Pixels
from skipjack.solvers.convolution.implicit_module import Module, NamedSlots
from skipjack.solvers.convolution.implicit_reduction import (
    NUMBERS,
    POINTERS,
    FilterForm,
    PixelRanges,
    Span,
    Spread,
    by_place,
    over_blocks,
    tile_at,
)
from skipjack.solvers.convolution.implicit_tile import Tile, TileWriter, Walk
from skipjack.solvers.loops.entry import share, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_PARAMETERS = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n0, i64 %n1, i64 %n2, i1 %add"
"""Of a tile: how many images, and pixels along depth and height, it sums over."""


def row_count(geometry: Geometry) -> int:
    """Rows of a product."""
    return geometry.axes[2].filter * geometry.group_c


def pixel_runs(axis: Axis) -> list[tuple[int, int, Numbers]]:
    """Pixels along the width in runs that find the same taps inside: first, number, taps."""
    part = forward_part(axis)
    spans = [part.active(tap, 0, part.count) for tap in range(part.taps)]

    def taps(pixel: int) -> Numbers:
        inside = [tap for tap, (low, high) in enumerate(spans) if low <= pixel < high]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    found = []
    for span, group in groupby(range(part.count), key=taps):
        pixels = list(group)
        found.append((pixels[0], len(pixels), span))
    return found


def generate(geometry: Geometry, form: FilterForm) -> str:
    """The whole module; ``void @kernel(ptr slots)``. Arrays are channels last."""
    return _Runs(geometry, form).module()


class _Runs:
    def __init__(self, geometry: Geometry, form: FilterForm) -> None:
        self.geometry, self.form = geometry, form
        self.item = form.vector.item_bytes
        self.image = Pixels.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        self.result = Pixels.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
        rows = row_count(geometry)
        self.rows = Spread.of(rows, even(rows, form.rows))
        self.columns = Spread.of(geometry.group_k, form.columns)
        self.above = geometry.axes[0].filter * geometry.axes[1].filter
        self.out = Module(form.vector)

    def module(self) -> str:
        for row in range(self.rows.count):
            for columns in self.columns.sizes:
                self._tile_function(row, columns)
        self._task_function()
        return self.out.text()

    def _tile_function(self, number: int, columns: int) -> None:
        geometry, item = self.geometry, self.item
        w, axes = WholeNumberWriter(), geometry.axes
        first = number * self.rows.size
        last = number == self.rows.count - 1
        places = range(first, first + (self.rows.last if last else self.rows.size))
        taps = [divmod(place, geometry.group_c) for place in places]
        spread = axes[2].dilation * self.image.axes[2]
        tile = Tile(
            tuple((x * spread + c) * item for x, c in taps),
            tuple(at * geometry.group_k * item for at in range(len(places))),
            columns,
            self.form.vector,
        )
        writer = TileWriter(w, tile)
        steps = [stride * axis.stride for stride, axis in zip(self.image.axes, axes, strict=True)]
        a_moves = (self.image.image, *steps)
        b_moves = (self.result.image, *self.result.axes)

        def across(a: str, b: str, sums: list[str]) -> list[str]:
            a_move, b_move = a_moves[3] * item, b_moves[3] * item
            for start, count, (low, high) in pixel_runs(axes[2]):
                rows = [at for at, (x, _) in enumerate(taps) if low <= x < high]
                walk = Walk(count, a_move, b_move)
                a_at, b_at = w.advance(a, start * a_move), w.advance(b, start * b_move)
                sums = writer.accumulate(rows, walk, a_at, b_at, sums)
            return sums

        def over(level: int, a: str, b: str, sums: list[str]) -> list[str]:
            if level == 3:
                return across(a, b, sums)
            if level and axes[level - 1] == Axis(1):
                return over(level + 1, a, b, sums)
            walk = Walk(f"%n{level}", a_moves[level] * item, b_moves[level] * item)
            return writer.around(walk, a, b, sums, lambda *at: over(level + 1, *at))

        writer.write(over(0, "%a", "%b", writer.zeros()), "%c", "%add")
        self.out.close(w, f"void @tile{number}_{columns}({_PARAMETERS})")

    def _task_function(self) -> None:
        w, geometry = NamedSlots(POINTERS, NUMBERS), self.geometry
        units = geometry.groups * self.above * self.rows.count * self.columns.count
        mine = share(w, units)
        over_blocks(w, geometry, lambda spans, add: self._units(w, mine, spans, add))
        self.out.close(w, task_signature())

    def _units(self, w: NamedSlots, mine: Span, spans: list[Span], add: str) -> None:
        """This thread's tiles over one block of the reduction."""
        geometry, item = self.geometry, self.item
        ranges = PixelRanges(w, geometry, item)

        def unit(counter: str, _: list[str]) -> list[str]:
            rest, place = w.divided(w.add(mine[0], counter), self.rows.count * self.columns.count)
            group, above = w.divided(rest, self.above)
            row, column = tile_at(w, place, self.rows, self.columns)
            k = w.mul(column, self.columns.size)
            channel = w.add(w.mul(group, geometry.group_k), k)
            result = w.advance(w.given("result"), w.mul(channel, item))
            image = w.advance(w.given("image"), w.mul(group, geometry.group_c * item))
            # Where the first tap of the first pixel would be, inside or not.
            image = w.advance(image, -geometry.axes[2].pad * self.image.axes[2] * item)
            first = w.add(w.mul(rest, row_count(geometry)), w.mul(row, self.rows.size))
            at = w.add(w.mul(first, geometry.group_k), k)
            out = w.advance(w.given("out"), w.mul(at, item))
            z, y = w.divided(above, geometry.axes[1].filter)
            image, result, counts = ranges.move(image, result, spans, [z, y])
            numbers = ", ".join(f"i64 {each}" for each in counts)
            self._call(w, row, column, f"ptr {image}, ptr {result}, ptr {out}, {numbers}, i1 {add}")
            return []

        w.loop_or_skip(w.sub(mine[1], mine[0]), [], unit)

    def _call(self, w: NamedSlots, row: str, column: str, given: str) -> None:
        """The function of this row of tiles."""
        for number in range(self.rows.count):

            def call(columns: int, number: int = number) -> None:
                w.emit(f"call void @tile{number}_{columns}({given})")

            def here(call: Callable[[int], None] = call) -> None:
                by_place(w, column, self.columns, call)

            w.when(w.value(f"icmp eq i64 {row}, {number}"), here)
