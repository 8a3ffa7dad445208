"""The two implicit matrix products that compute the filter's gradient, as LLVM IR.

Vectors hold channels of the image, or, if the image has few channels, channels of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from skipjack.operations import Axis, Geometry
from skipjack.solvers.cpu.conv.implicit_gemm.gather import PixelStrides, even_size, forward_part
from skipjack.solvers.cpu.conv.implicit_gemm.gather import Span as Numbers
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_blocks import (
    NUMBERS,
    POINTERS,
    CountedRange,
    Division,
    FilterForm,
    PixelRanges,
    by_division,
    over_blocks,
    tile_at,
)
from skipjack.solvers.cpu.conv.implicit_gemm.tile import (
    ImplicitTile,
    KernelModule,
    NamedSlots,
    ReductionLoop,
    TileWriter,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter, share, task_signature

# Vectors hold channels of the image.
#
# Rows of the product are channels of the result, columns channels of the image, with one such
# matrix for each tap, and the reduction runs over pixels. Both operands are read in place. Each
# tap only reads the pixels inside the image, so nothing is multiplied by padding. The loops:
# blocks of the reduction, then tiles with all their taps. Threads share out the latter.

_TAP_PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n0, i64 %n1, i64 %n2, i64 %n3, i1 %add"
)
"""Parameters of a tile: the images, and the pixels along each axis, that it sums over."""


def filter_by_taps(geometry: Geometry, form: FilterForm) -> str:
    """The module with ``void @kernel(ptr slots)``, for arrays with channels last."""
    return _Filter(geometry, form).module()


class _Filter:
    def __init__(self, geometry: Geometry, form: FilterForm) -> None:
        self.geometry, self.form = geometry, form
        self.item = form.vector.item_bytes
        self.rows = Division.of(geometry.group_k, even_size(geometry.group_k, form.rows))
        self.columns = Division.of(geometry.group_c, form.columns)
        self.row_stride = geometry.taps * geometry.group_c
        self.out = KernelModule(form.vector)

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
        tile = ImplicitTile(
            tuple(row * item for row in places),
            tuple(row * apart for row in places),
            columns,
            self.form.vector,
        )
        writer = TileWriter(w, tile)
        image = PixelStrides.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        result = PixelStrides.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
        steps = [stride * axis.stride for stride, axis in zip(image.axes, axes, strict=True)]
        a_moves, b_moves = (result.image, *result.axes), (image.image, *steps)

        def over(level: int, a: str, b: str, sums: list[str]) -> list[str]:
            loop = ReductionLoop(f"%n{level}", a_moves[level] * item, b_moves[level] * item)
            if level == 3:
                return writer.accumulate(places, loop, a, b, sums)
            if level and axes[level - 1] == Axis(1):
                return over(level + 1, a, b, sums)
            return writer.around(loop, a, b, sums, lambda *at: over(level + 1, *at))

        writer.write(over(0, "%a", "%b", writer.zeros()), "%c", "%add")
        self.out.close(w, f"void @tile{rows}_{columns}({_TAP_PARAMETERS})")

    def _task_function(self) -> None:
        w, geometry = NamedSlots(POINTERS, NUMBERS), self.geometry
        units = geometry.groups * self.rows.count * self.columns.count * geometry.taps
        mine = share(w, units)
        over_blocks(w, geometry, lambda spans, add: self._units(w, mine, spans, add))
        self.out.close(w, task_signature())

    def _units(
        self, w: NamedSlots, mine: CountedRange, spans: list[CountedRange], add: str
    ) -> None:
        """Write this thread's tiles and taps over one block of the reduction."""
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
        """The addresses of a tile's first channels in the image, the result and the filter."""
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
        """Call the function of a tile of this size."""

        def by_columns(rows: int) -> None:
            def call(columns: int) -> None:
                w.emit(f"call void @tile{rows}_{columns}({given})")

            by_division(w, column, self.columns, call)

        by_division(w, row, self.rows, by_columns)


# The image has few channels: vectors hold channels of the result.
#
# Columns of the product are channels of the result, so that they fill vectors; rows are the taps
# along the width with the channels of the image, which are adjacent in the image. There is a
# product for each tap of depth and height, and the reduction runs over pixels. Near the borders,
# pixels skip the rows whose tap reads padding. The computed filter has the result's channels
# last and is transposed afterwards.

_RUN_PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n0, i64 %n1, i64 %n2, i1 %add"
)
"""Parameters of a tile: the images, and the pixels along depth and height, that it sums over."""


def row_count(geometry: Geometry) -> int:
    """The rows of a product."""
    return geometry.axes[2].filter * geometry.group_c


def pixel_runs(axis: Axis) -> list[tuple[int, int, Numbers]]:
    """Pixels along the width in runs with the same taps inside the image: first, number, taps."""
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


def filter_by_runs(geometry: Geometry, form: FilterForm) -> str:
    """The module with ``void @kernel(ptr slots)``, for arrays with channels last."""
    return _Runs(geometry, form).module()


class _Runs:
    def __init__(self, geometry: Geometry, form: FilterForm) -> None:
        self.geometry, self.form = geometry, form
        self.item = form.vector.item_bytes
        self.image = PixelStrides.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
        self.result = PixelStrides.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
        rows = row_count(geometry)
        self.rows = Division.of(rows, even_size(rows, form.rows))
        self.columns = Division.of(geometry.group_k, form.columns)
        self.above = geometry.axes[0].filter * geometry.axes[1].filter
        self.out = KernelModule(form.vector)

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
        tile = ImplicitTile(
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
                loop = ReductionLoop(count, a_move, b_move)
                a_at, b_at = w.advance(a, start * a_move), w.advance(b, start * b_move)
                sums = writer.accumulate(rows, loop, a_at, b_at, sums)
            return sums

        def over(level: int, a: str, b: str, sums: list[str]) -> list[str]:
            if level == 3:
                return across(a, b, sums)
            if level and axes[level - 1] == Axis(1):
                return over(level + 1, a, b, sums)
            loop = ReductionLoop(f"%n{level}", a_moves[level] * item, b_moves[level] * item)
            return writer.around(loop, a, b, sums, lambda *at: over(level + 1, *at))

        writer.write(over(0, "%a", "%b", writer.zeros()), "%c", "%add")
        self.out.close(w, f"void @tile{number}_{columns}({_RUN_PARAMETERS})")

    def _task_function(self) -> None:
        w, geometry = NamedSlots(POINTERS, NUMBERS), self.geometry
        units = geometry.groups * self.above * self.rows.count * self.columns.count
        mine = share(w, units)
        over_blocks(w, geometry, lambda spans, add: self._units(w, mine, spans, add))
        self.out.close(w, task_signature())

    def _units(
        self, w: NamedSlots, mine: CountedRange, spans: list[CountedRange], add: str
    ) -> None:
        """Write this thread's tiles over one block of the reduction."""
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
            # The address of the first tap of the first pixel, even if it is outside.
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
        """Call the function of this row of tiles."""
        for number in range(self.rows.count):

            def call(columns: int, number: int = number) -> None:
                w.emit(f"call void @tile{number}_{columns}({given})")

            def here(call: Callable[[int], None] = call) -> None:
                by_division(w, column, self.columns, call)

            w.when(w.value(f"icmp eq i64 {row}, {number}"), here)
