"""An implicit matrix product that computes the filter's gradient, as LLVM IR.

Rows of the product are channels of the result, columns channels of the image, one such matrix for
each tap, and the reduction runs over pixels. Both operands are read where they are. A tap takes
the pixels that it finds inside of the image, so nothing is multiplied by padding.

The walk: blocks of the reduction, then tiles with all their taps. Threads share the latter out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.native.ir import VectorType
from skipjack.operations.conv_geometry import Axis, Geometry
from skipjack.solvers.convolution.implicit_axes import even
from skipjack.solvers.convolution.implicit_gather import Pixels
from skipjack.solvers.convolution.implicit_module import Module, NamedSlots
from skipjack.solvers.convolution.implicit_tile import Tile, TileWriter, Walk
from skipjack.solvers.loops.entry import share, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

POINTERS = ("image", "result", "out")
NUMBERS = ("rows_inside", "image_block", "depth_block", "line_block", "begun")
"""After the shared slots: whether the inner loop over tiles goes down the rows, blocks of the
reduction, and whether something is there already to add to."""
_PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n0, i64 %n1, i64 %n2, i64 %n3, i1 %add"
)
"""Of a tile: how many images, and pixels along each axis, it sums over."""


@dataclass(frozen=True, slots=True)
class FilterForm:
    """What of a config decides the machine code."""

    rows: int
    """At most."""
    vectors: int
    vector: VectorType

    @property
    def columns(self) -> int:
        """Of a full tile."""
        return self.vectors * self.vector.lanes


@dataclass(frozen=True, slots=True)
class _Spread:
    """Pieces that cover an extent: all of one size, or the last one smaller."""

    size: int
    count: int
    last: int

    @classmethod
    def of(cls, extent: int, size: int) -> _Spread:
        count = -(-extent // size)
        return cls(size, count, extent - (count - 1) * size)

    @property
    def sizes(self) -> list[int]:
        """That occur, the full one first."""
        return list(dict.fromkeys([*[self.size] * (self.count > 1), self.last]))


def generate(geometry: Geometry, form: FilterForm) -> str:
    """The whole module; ``void @kernel(ptr slots)``. Arrays are channels last."""
    return _Filter(geometry, form).module()


class _Filter:
    def __init__(self, geometry: Geometry, form: FilterForm) -> None:
        self.geometry, self.form = geometry, form
        self.item = form.vector.item_bytes
        self.image = Pixels.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        self.result = Pixels.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
        self.rows = _Spread.of(geometry.group_k, even(geometry.group_k, form.rows))
        self.columns = _Spread.of(geometry.group_c, form.columns)
        self.row_stride = geometry.taps * geometry.group_c
        self.out = Module(form.vector)

    def module(self) -> str:
        for rows in self.rows.sizes:
            for columns in self.columns.sizes:
                self._tile_function(rows, columns)
        self._task_function()
        return self.out.text()

    def _tile_function(self, rows: int, columns: int) -> None:
        w, item, axes = WholeNumberWriter(), self.item, self.geometry.axes
        apart = self.row_stride * item
        places = range(rows)
        writer = TileWriter(
            w,
            Tile(
                tuple(row * item for row in places),
                tuple(row * apart for row in places),
                columns,
                self.form.vector,
            ),
        )
        steps = [stride * axis.stride for stride, axis in zip(self.image.axes, axes, strict=True)]
        moves = list(
            zip((self.result.image, *self.result.axes), (self.image.image, *steps), strict=True)
        )

        def over(level: int, a: str, b: str, sums: list[str]) -> list[str]:
            walk = Walk(f"%n{level}", moves[level][0] * item, moves[level][1] * item)
            if level == 3:
                return writer.accumulate(places, walk, a, b, sums)
            if level and axes[level - 1] == Axis(1):
                return over(level + 1, a, b, sums)
            return writer.around(walk, a, b, sums, lambda *at: over(level + 1, *at))

        writer.write(over(0, "%a", "%b", writer.zeros()), "%c", "%add")
        self.out.close(w, f"void @tile{rows}_{columns}({_PARAMETERS})")

    # The walk

    def _task_function(self) -> None:
        w, geometry = NamedSlots(POINTERS, NUMBERS), self.geometry
        units = geometry.groups * self.rows.count * self.columns.count * geometry.taps
        mine = share(w, units)
        sizes = (geometry.n, *geometry.result_sizes[:2])
        blocks = [w.given(name) for name in NUMBERS[1:4]]

        def over(level: int, spans: list[tuple[str, str]], numbers: list[str]) -> None:
            if level == 3:
                self._units(w, mine, spans, numbers)
                return

            def body(number: str, _: list[str]) -> list[str]:
                start = w.mul(number, blocks[level])
                count = w.least(w.sub(sizes[level], start), blocks[level])
                over(level + 1, [*spans, (start, count)], [*numbers, number])
                return []

            w.loop(w.rounds(sizes[level], blocks[level]), [], body)

        over(0, [], [])
        self.out.close(w, task_signature())

    def _units(
        self,
        w: NamedSlots,
        mine: tuple[str, str],
        spans: list[tuple[str, str]],
        numbers: list[str],
    ) -> None:
        """This thread's tiles and taps over one block of the reduction."""
        started = w.add(w.add(*numbers[:2]), w.add(numbers[2], w.given("begun")))
        add = w.value(f"icmp ne i64 {started}, 0")

        def unit(counter: str, _: list[str]) -> list[str]:
            rest, tap = w.divided(w.add(mine[0], counter), self.geometry.taps)
            group, rest = w.divided(rest, self.rows.count * self.columns.count)
            row, column = self._tile_at(w, rest)
            a, b, c = self._corners(w, group, row, column, tap)
            a, b, counts = self._pixels(w, a, b, tap, spans)
            given = f"ptr {a}, ptr {b}, ptr {c}, {counts}, i1 {add}"
            self._call(w, row, column, given)
            return []

        w.loop_or_skip(w.sub(mine[1], mine[0]), [], unit)

    def _tile_at(self, w: NamedSlots, number: str) -> tuple[str, str]:
        inside = w.value(f"icmp ne i64 {w.given('rows_inside')}, 0")
        by_rows = w.divided(number, self.columns.count)
        by_columns = w.divided(number, self.rows.count)
        row = w.value(f"select i1 {inside}, i64 {by_columns[1]}, i64 {by_rows[0]}")
        column = w.value(f"select i1 {inside}, i64 {by_columns[0]}, i64 {by_rows[1]}")
        return row, column

    def _corners(
        self, w: NamedSlots, group: str, row: str, column: str, tap: str
    ) -> tuple[str, str, str]:
        """Where a tile's channels begin in the result, the image and the filter."""
        geometry, item = self.geometry, self.item
        k = w.mul(row, self.rows.size)
        c = w.mul(column, self.columns.size)
        result_channel = w.add(w.mul(group, geometry.group_k), k)
        image_channel = w.add(w.mul(group, geometry.group_c), c)
        inside = w.add(w.mul(tap, geometry.group_c), c)
        place = w.add(w.mul(result_channel, self.row_stride), inside)
        return (
            w.advance(w.given("result"), w.mul(result_channel, item)),
            w.advance(w.given("image"), w.mul(image_channel, item)),
            w.advance(w.given("out"), w.mul(place, item)),
        )

    def _pixels(
        self, w: NamedSlots, a: str, b: str, tap: str, spans: list[tuple[str, str]]
    ) -> tuple[str, str, str]:
        """The corners moved to the first pixels of a block that a tap finds inside; how many."""
        geometry, item = self.geometry, self.item
        image, count = spans[0]
        a = w.advance(a, w.mul(image, self.result.image * item))
        b = w.advance(b, w.mul(image, self.image.image * item))
        counts = [count]
        rest, x = w.divided(tap, geometry.axes[2].filter)
        z, y = w.divided(rest, geometry.axes[1].filter)
        across = ("0", str(geometry.axes[2].result))
        for axis, (at, span) in enumerate(zip((z, y, x), (*spans[1:], across), strict=True)):
            first, count, place = _inside(w, geometry.axes[axis], at, span)
            a = w.advance(a, w.mul(first, self.result.axes[axis] * item))
            b = w.advance(b, w.mul(place, self.image.axes[axis] * item))
            counts.append(count)
        return a, b, ", ".join(f"i64 {each}" for each in counts)

    def _call(self, w: NamedSlots, row: str, column: str, given: str) -> None:
        """The function of a tile of this size."""

        def by_columns(rows: int) -> None:
            def call(columns: int) -> None:
                w.emit(f"call void @tile{rows}_{columns}({given})")

            _by_place(w, column, self.columns, call)

        _by_place(w, row, self.rows, by_columns)


def _by_place(w: NamedSlots, place: str, spread: _Spread, then: Callable[[int], None]) -> None:
    """Do something with the size of the piece at a place."""
    sizes = spread.sizes
    if len(sizes) == 1:
        then(sizes[0])
    else:
        last = w.value(f"icmp eq i64 {place}, {spread.count - 1}")
        w.either(last, lambda: then(sizes[1]), lambda: then(sizes[0]))


def _inside(w: NamedSlots, axis: Axis, tap: str, span: tuple[str, str]) -> tuple[str, str, str]:
    """Pixels of the result within a span whose tap is inside: the first, how many, its place."""
    begin, count = span
    if axis.filter == 1 and axis.pad == 0:
        return begin, count, w.mul(begin, axis.stride)
    offset = w.sub(w.mul(tap, axis.dilation), axis.pad)
    low = w.most(w.rounds(w.positive(w.sub(0, offset)), axis.stride), begin)
    beyond = w.rounds(w.positive(w.sub(axis.image, offset)), axis.stride)
    high = w.least(beyond, w.add(begin, count))
    return low, w.without(high, low), w.add(w.mul(low, axis.stride), offset)
