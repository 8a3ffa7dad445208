"""An implicit matrix product that computes the filter's gradient, as LLVM IR.

Rows of the product are channels of the result, columns channels of the image, one such matrix for
each tap, and the reduction runs over pixels. Both operands are read where they are. A tap takes
the pixels that it finds inside of the image, so nothing is multiplied by padding.

The walk: blocks of the reduction, then tiles with all their taps. Threads share the latter out.
"""

from __future__ import annotations

from skipjack.operations.conv_geometry import Axis, Geometry
from skipjack.solvers.convolution.implicit_axes import even
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

_PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n0, i64 %n1, i64 %n2, i64 %n3, i1 %add"
)
"""Of a tile: how many images, and pixels along each axis, it sums over."""


def generate(geometry: Geometry, form: FilterForm) -> str:
    """The whole module; ``void @kernel(ptr slots)``. Arrays are channels last."""
    return _Filter(geometry, form).module()


class _Filter:
    def __init__(self, geometry: Geometry, form: FilterForm) -> None:
        self.geometry, self.form = geometry, form
        self.item = form.vector.item_bytes
        self.rows = Spread.of(geometry.group_k, even(geometry.group_k, form.rows))
        self.columns = Spread.of(geometry.group_c, form.columns)
        self.row_stride = geometry.taps * geometry.group_c
        self.out = Module(form.vector)

    def module(self) -> str:
        for rows in self.rows.sizes:
            for columns in self.columns.sizes:
                self._tile_function(rows, columns)
        self._task_function()
        return self.out.text()

    def _tile_function(self, rows: int, columns: int) -> None:
        geometry, item, axes = self.geometry, self.item, self.geometry.axes
        w, places = WholeNumberWriter(), range(rows)
        apart = self.row_stride * item
        tile = Tile(
            tuple(row * item for row in places),
            tuple(row * apart for row in places),
            columns,
            self.form.vector,
        )
        writer = TileWriter(w, tile)
        image = Pixels.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        result = Pixels.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
        steps = [stride * axis.stride for stride, axis in zip(image.axes, axes, strict=True)]
        a_moves, b_moves = (result.image, *result.axes), (image.image, *steps)

        def over(level: int, a: str, b: str, sums: list[str]) -> list[str]:
            walk = Walk(f"%n{level}", a_moves[level] * item, b_moves[level] * item)
            if level == 3:
                return writer.accumulate(places, walk, a, b, sums)
            if level and axes[level - 1] == Axis(1):
                return over(level + 1, a, b, sums)
            return writer.around(walk, a, b, sums, lambda *at: over(level + 1, *at))

        writer.write(over(0, "%a", "%b", writer.zeros()), "%c", "%add")
        self.out.close(w, f"void @tile{rows}_{columns}({_PARAMETERS})")

    def _task_function(self) -> None:
        w, geometry = NamedSlots(POINTERS, NUMBERS), self.geometry
        units = geometry.groups * self.rows.count * self.columns.count * geometry.taps
        mine = share(w, units)
        over_blocks(w, geometry, lambda spans, add: self._units(w, mine, spans, add))
        self.out.close(w, task_signature())

    def _units(self, w: NamedSlots, mine: Span, spans: list[Span], add: str) -> None:
        """This thread's tiles and taps over one block of the reduction."""
        geometry = self.geometry
        ranges = PixelRanges(w, geometry, self.item)
        across = ("0", str(geometry.axes[2].result))

        def unit(counter: str, _: list[str]) -> list[str]:
            rest, tap = w.divided(w.add(mine[0], counter), geometry.taps)
            group, rest = w.divided(rest, self.rows.count * self.columns.count)
            row, column = tile_at(w, rest, self.rows, self.columns)
            image, result, out = self._corners(w, group, row, column, tap)
            above, x = w.divided(tap, geometry.axes[2].filter)
            z, y = w.divided(above, geometry.axes[1].filter)
            image, result, counts = ranges.move(image, result, [*spans, across], [z, y, x])
            numbers = ", ".join(f"i64 {each}" for each in counts)
            given = f"ptr {result}, ptr {image}, ptr {out}, {numbers}, i1 {add}"
            self._call(w, row, column, given)
            return []

        w.loop_or_skip(w.sub(mine[1], mine[0]), [], unit)

    def _corners(
        self, w: NamedSlots, group: str, row: str, column: str, tap: str
    ) -> tuple[str, str, str]:
        """Where a tile's channels begin in the image, the result and the filter."""
        geometry, item = self.geometry, self.item
        k = w.mul(row, self.rows.size)
        c = w.mul(column, self.columns.size)
        result_channel = w.add(w.mul(group, geometry.group_k), k)
        image_channel = w.add(w.mul(group, geometry.group_c), c)
        inside = w.add(w.mul(tap, geometry.group_c), c)
        place = w.add(w.mul(result_channel, self.row_stride), inside)
        return (
            w.advance(w.given("image"), w.mul(image_channel, item)),
            w.advance(w.given("result"), w.mul(result_channel, item)),
            w.advance(w.given("out"), w.mul(place, item)),
        )

    def _call(self, w: NamedSlots, row: str, column: str, given: str) -> None:
        """The function of a tile of this size."""

        def by_columns(rows: int) -> None:
            def call(columns: int) -> None:
                w.emit(f"call void @tile{rows}_{columns}({given})")

            by_place(w, column, self.columns, call)

        by_place(w, row, self.rows, by_columns)
