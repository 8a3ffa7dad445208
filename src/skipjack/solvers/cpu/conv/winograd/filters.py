"""Transforming 3x3 filters into planes of Winograd's points, and planes into filters, as LLVM IR.

Vectors hold columns: the channels that the products keep. They may lie side by side in memory
(*direct*), or the rows do (with or without their nine taps); then square tiles go through a small
buffer, in which columns lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skipjack.native import VectorType
from skipjack.solvers.cpu.conv.winograd.stage_code import (
    BLOCK,
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

FILTERS = (
    *BLOCK,
    *("source", "target"),
    *("length", "column_bytes", "row_bytes", "tap_bytes"),
    *("plane_bytes", "line_bytes", "group", "group_bytes"),
)
"""There are `length` rows. In a plane, vectors of a row lie side by side in groups, and rows in
lines."""

Order = Literal["columns", "rows", "row_taps", "column_taps"]
"""What lies side by side in a filter; `_taps` means that the taps of each come first."""
_TAPS = 9


@dataclass(frozen=True, slots=True)
class FilterTransform:
    """The parameters of the code of a stage."""

    line: LineTransform
    vector: VectorType
    order: Order
    flipped: bool = False


def planes_of_filters(kind: FilterTransform) -> str:
    """From filters (`source`) to planes (`target`)."""
    return _FilterWriter(kind, reads=True).module()


def filters_of_planes(kind: FilterTransform) -> str:
    """From planes (`source`) to filters (`target`)."""
    return _FilterWriter(kind, reads=False).module()


@dataclass(frozen=True, slots=True)
class _Square:
    """Some rows and columns, at most as many as lanes."""

    filters: str
    """The address of the first row and column in the filter."""
    planes: str
    rows: str
    columns: str


class _FilterWriter:
    def __init__(self, kind: FilterTransform, *, reads: bool) -> None:
        self.kind, self.vector, self.reads = kind, kind.vector, reads
        self.lanes, self.item = kind.vector.lanes, kind.vector.item_bytes
        self.width = self.lanes * self.item
        self.w = w = StageWriter(FILTERS)
        points = max(kind.line.inputs, kind.line.outputs)
        self.points = [w.mul(w["plane_bytes"], number) for number in range(points**2)]
        count = {"columns": 0, "column_taps": 2}.get(kind.order, 1)
        self.buffers = [self.buffer() for _ in range(count)]

    def module(self) -> str:
        w = self.w
        first, columns = w.block_of_columns()
        across, down = w.rounds(columns, self.lanes), w.rounds(w["length"], self.lanes)
        filters, planes = ("source", "target") if self.reads else ("target", "source")
        begin, end = share(w, w.mul(across, down))

        def square(counter: str, _: list[str]) -> list[str]:
            column, row = w.divided(w.add(begin, counter), down)
            group, inside = w.divided(column, w["group"])
            column, row = w.mul(column, self.lanes), w.mul(row, self.lanes)
            here = w.advance(w[filters], w.mul(w.add(first, column), w["column_bytes"]))
            here = w.advance(here, w.mul(row, w["row_bytes"]))
            there = w.advance(w[planes], w.mul(group, w["group_bytes"]))
            there = w.advance(there, w.mul(inside, self.width))
            there = w.advance(there, w.mul(row, w["line_bytes"]))
            rows = w.least(self.lanes, w.sub(w["length"], row))
            part = _Square(here, there, rows, w.least(self.lanes, w.sub(columns, column)))
            if self.kind.order == "columns":
                self._direct(part)
            else:
                self._through(part)
            return []

        w.loop_or_skip(w.sub(end, begin), [], square)
        return w.module(self.vector)

    def buffer(self) -> str:
        """A buffer for a square tile of all taps."""
        return self.w.value(f"alloca [{_TAPS * self.lanes * self.width} x i8], align 64")

    def each_row(
        self, square: _Square, taps: str, steps: tuple[str, str], mask: str | None
    ) -> None:
        """Transform row by row; `steps` are the strides between rows and between taps."""
        w = self.w

        def row(_: str, at: list[str]) -> list[str]:
            places = [at[0]]
            while len(places) < _TAPS:
                places.append(w.advance(places[-1], steps[1]))
            if self.kind.flipped:
                places.reverse()
            self._transform(places, at[1], mask)
            return [w.advance(at[0], steps[0]), w.advance(at[1], w["line_bytes"])]

        w.loop(square.rows, [("ptr", taps), ("ptr", square.planes)], row)

    def _transform(self, taps: list[str], planes: str, mask: str | None) -> None:
        w, line = self.w, self.kind.line
        size = max(line.inputs, line.outputs)
        filters = SquarePlaces(lambda y, x: taps[3 * y + x], mask)
        points = SquarePlaces(lambda y, x: w.advance(planes, self.points[y * size + x]))
        source, target = (filters, points) if self.reads else (points, filters)
        transform_square(w, self.vector, line, source, target)

    # Columns side by side

    def _direct(self, square: _Square) -> None:
        w, steps = self.w, (self.w["row_bytes"], self.w["tap_bytes"])

        def part() -> None:
            mask = w.first_lanes(self.lanes, square.columns)
            self.each_row(square, square.filters, steps, mask)

        full = w.value(f"icmp eq i64 {square.columns}, {self.lanes}")
        w.either(full, lambda: self.each_row(square, square.filters, steps, None), part)

    # Through a buffer

    def _through(self, square: _Square) -> None:
        order, width = self.kind.order, str(self.width)
        if order == "row_taps":
            steps = str(_TAPS * self.width), width
        else:
            steps = width, str(self.lanes * self.width)
        if self.reads:
            self._move(square)
            if order == "column_taps":
                self._transpose_again()
        self.each_row(square, self.buffers[-1], steps, None)
        if not self.reads:
            self._move(square)

    def _move(self, square: _Square) -> None:
        """Copy between the filters and the buffer, in which lines of the filters are columns."""
        w, order, width = self.w, self.kind.order, str(self.width)
        if order == "column_taps":
            stride, lines, length = w["row_bytes"], square.rows, square.columns
        else:
            stride, lines, length = w["column_bytes"], square.columns, square.rows
        # Each line is nine short runs of memory, or a long one.
        short = order == "rows"
        full = w.value(f"icmp eq i64 {length}, {self.lanes}")

        def part() -> None:
            counts: list[str | int] = [_TAPS if short else 1, length, lines]
            if not short:
                counts[1] = w.mul(length, _TAPS)
            filters = square.filters, [w["tap_bytes"], str(self.item), stride]
            buffer = self.buffers[0], [str(self.lanes * self.width), width, str(self.item)]
            source, target = (filters, buffer) if self.reads else (buffer, filters)
            copy_elements(w, self.vector, counts, source, target)

        starts = line_starts(w, square.filters, stride, lines, self.lanes)
        step = w["tap_bytes"] if short else width
        w.either(full, lambda: self._squares(starts, step), part)

    def _squares(self, starts: list[str], step: str) -> None:
        w = self.w

        def one(_: str, at: list[str]) -> list[str]:
            *lines, there = at
            columns = [w.advance(there, number * self.width) for number in range(self.lanes)]
            source, target = (lines, columns) if self.reads else (columns, lines)
            transpose_square(w, self.vector, source, target)
            moved = [w.advance(line, step) for line in lines]
            return [*moved, w.advance(there, self.lanes * self.width)]

        w.loop(_TAPS, [("ptr", each) for each in [*starts, self.buffers[0]]], one)

    def _transpose_again(self) -> None:
        """Transpose taps of columns, whose rows lie side by side, to columns side by side."""
        w, every = self.w, range(self.lanes)

        def one(_: str, at: list[str]) -> list[str]:
            lines = [w.advance(at[0], number * _TAPS * self.width) for number in every]
            columns = [w.advance(at[1], number * self.width) for number in every]
            transpose_square(w, self.vector, lines, columns)
            return [w.advance(at[0], self.width), w.advance(at[1], self.lanes * self.width)]

        w.loop(_TAPS, [("ptr", buffer) for buffer in self.buffers], one)
