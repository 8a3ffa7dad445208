"""Transforming 3x3 filters into planes of Winograd's points, and planes into filters, as LLVM IR.

Vectors run over columns: the channels that products keep. In memory they may lie side by side
(*direct*), or it is the rows (with or without their nine taps) that do; then squares of as many
rows as columns go through a small buffer, in which columns lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from skipjack.native.ir import VectorType
from skipjack.solvers.convolution.winograd_lines import Line, write_square
from skipjack.solvers.convolution.winograd_slots import BLOCK, StageWriter
from skipjack.solvers.loops.entry import share
from skipjack.solvers.loops.packing import transpose

FILTERS = (
    *BLOCK,
    *("source", "target"),
    *("length", "column_bytes", "row_bytes", "tap_bytes"),
    *("plane_bytes", "line_bytes", "group", "group_bytes"),
)
"""`length` rows. In a plane, vectors of a row lie side by side in groups, and rows in lines."""

Order = Literal["columns", "rows", "row_taps", "column_taps"]
"""What lies side by side in a filter; with taps those come first."""
_TAPS = 9


@dataclass(frozen=True, slots=True)
class Filters:
    """What decides the code of a stage."""

    line: Line
    vector: VectorType
    order: Order
    flipped: bool = False


def planes_of_filters(kind: Filters) -> str:
    """From filters (`source`) to planes (`target`)."""
    return _FilterWriter(kind).module(_Reader)


def filters_of_planes(kind: Filters) -> str:
    """From planes (`source`) to filters (`target`)."""
    return _FilterWriter(kind).module(_Writer)


@dataclass(frozen=True, slots=True)
class _Square:
    """Some rows and columns, as many as lanes or fewer."""

    filters: str
    """The first row and column in memory."""
    planes: str
    rows: str
    columns: str


class _FilterWriter:
    def __init__(self, kind: Filters) -> None:
        self.kind, self.vector = kind, kind.vector
        self.lanes, self.item = kind.vector.lanes, kind.vector.item_bytes
        self.width = self.lanes * self.item
        self.w = w = StageWriter(FILTERS)
        points = max(kind.line.inputs, kind.line.outputs)
        self.points = [w.mul(w["plane_bytes"], number) for number in range(points**2)]

    def module(self, way: type[_Reader] | type[_Writer]) -> str:
        w = self.w
        first, columns = w.block_of_columns()
        body = way(self)
        across, down = w.rounds(columns, self.lanes), w.rounds(w["length"], self.lanes)
        filters = w["source" if way is _Reader else "target"]
        planes = w["target" if way is _Reader else "source"]
        begin, end = share(w, w.mul(across, down))

        def square(counter: str, _: list[str]) -> list[str]:
            column, row = w.divided(w.add(begin, counter), down)
            group, inside = w.divided(column, w["group"])
            column, row = w.mul(column, self.lanes), w.mul(row, self.lanes)
            here = w.advance(filters, w.mul(w.add(first, column), w["column_bytes"]))
            here = w.advance(here, w.mul(row, w["row_bytes"]))
            there = w.advance(planes, w.mul(group, w["group_bytes"]))
            there = w.advance(there, w.mul(inside, self.width))
            there = w.advance(there, w.mul(row, w["line_bytes"]))
            rows = w.least(self.lanes, w.sub(w["length"], row))
            body.write(_Square(here, there, rows, w.least(self.lanes, w.sub(columns, column))))
            return []

        w.loop_or_skip(w.sub(end, begin), [], square)
        return w.module(self.vector)

    def buffer(self) -> str:
        """Memory for a square of all taps."""
        return self.w.value(f"alloca [{_TAPS * self.lanes * self.width} x i8], align 64")

    def tap(self, number: int) -> int:
        """Where in the memory of a filter a tap is."""
        return _TAPS - 1 - number if self.kind.flipped else number

    def each_row(self, square: _Square, starts: list[str], steps: list[str | int], body: Callable[[list[str]], None]) -> None:
        """Row by row, with pointers that move on."""
        w = self.w

        def row(_: str, at: list[str]) -> list[str]:
            body(at)
            return [w.advance(each, step) for each, step in zip(at, steps, strict=True)]

        w.loop(square.rows, [("ptr", each) for each in starts], row)

    def full_or_not(self, have: str, body: Callable[[bool], None]) -> None:
        """Code for a whole vector, and other code for less."""
        full = self.w.value(f"icmp eq i64 {have}, {self.lanes}")
        self.w.either(full, lambda: body(True), lambda: body(False))

    def lines(self, start: str, stride: str, have: str) -> list[str]:
        """As many places as lanes; the last one that there is for all that are missing."""
        w = self.w
        last = w.sub(have, 1)
        return [w.advance(start, w.mul(w.least(at, last), stride)) for at in range(self.lanes)]

    def squares(self, lines: list[str], run: str | None, have: str | None, move: Callable[[list[str], str, str | None], None], buffer: str) -> None:
        """All nine squares of some lines: `move(lines, buffer, mask)` does one.

        Lines are nine runs, `run` bytes apart, or one long run of all taps. `have` neighbours are
        there, or all.
        """
        w = self.w
        left = "0" if have is None else have if run else w.mul(have, _TAPS)

        def one(_: str, at: list[str]) -> list[str]:
            *here, there, rest = at
            mask = None if have is None else w.first_lanes(self.lanes, rest)
            move(here, there, mask)
            moved = [w.advance(line, run or self.width) for line in here]
            after = rest if run else w.without(rest, self.lanes)
            return [*moved, w.advance(there, self.lanes * self.width), after]

        carried = [("ptr", each) for each in [*lines, buffer]]
        w.loop(_TAPS, [*carried, ("i64", left)], one)


class _Reader:
    """Filters to planes."""

    def __init__(self, own: _FilterWriter) -> None:
        self.own, self.w, self.vector = own, own.w, own.vector
        self.buffers = [own.buffer() for _ in range({"columns": 0, "column_taps": 2}.get(own.kind.order, 1))]

    def write(self, square: _Square) -> None:
        w, own, order = self.w, self.own, self.own.kind.order
        if order == "columns":
            own.full_or_not(square.columns, lambda full: self._direct(square, full))
            return
        neighbours = square.columns if order == "column_taps" else square.rows
        own.full_or_not(neighbours, lambda full: self._fill(square, None if full else neighbours))
        if order == "column_taps":
            self._turn()
        step, tap = (_TAPS, 1) if order == "row_taps" else (1, own.lanes)
        starts = [self.buffers[-1], square.planes]
        steps: list[str | int] = [step * own.width, w["line_bytes"]]
        own.each_row(square, starts, steps, lambda at: self._transform(at[0], str(tap * own.width), at[1], None))

    def _direct(self, square: _Square, full: bool) -> None:
        w = self.w
        mask = None if full else w.first_lanes(self.own.lanes, square.columns)
        starts, steps = [square.filters, square.planes], [w["row_bytes"], w["line_bytes"]]
        self.own.each_row(square, starts, list(steps), lambda at: self._transform(at[0], w["tap_bytes"], at[1], mask))

    def _fill(self, square: _Square, have: str | None) -> None:
        w, own, order = self.w, self.own, self.own.kind.order
        stride, count = (w["row_bytes"], square.rows) if order == "column_taps" else (w["column_bytes"], square.columns)
        lines = own.lines(square.filters, stride, count)
        run = w["tap_bytes"] if order == "rows" else None
        own.squares(lines, run, have, self._load, self.buffers[0])

    def _load(self, lines: list[str], buffer: str, mask: str | None) -> None:
        w = self.w
        values = transpose(w, self.vector, [w.load(self.vector, line, mask) for line in lines])
        for number, value in enumerate(values):
            w.store(self.vector, value, w.advance(buffer, number * self.own.width))

    def _turn(self) -> None:
        """From taps of columns, whose rows lie side by side, to columns side by side."""
        w, own = self.w, self.own

        def one(_: str, at: list[str]) -> list[str]:
            lines = [w.advance(at[0], number * _TAPS * own.width) for number in range(own.lanes)]
            self._load(lines, at[1], None)
            return [w.advance(at[0], own.width), w.advance(at[1], own.lanes * own.width)]

        w.loop(_TAPS, [("ptr", buffer) for buffer in self.buffers], one)

    def _transform(self, taps: str, stride: str, planes: str, mask: str | None) -> None:
        w, own = self.w, self.own
        places = [taps]
        for _ in range(_TAPS - 1):
            places.append(w.advance(places[-1], stride))
        size = own.kind.line.outputs
        write_square(
            w,
            self.vector,
            own.kind.line,
            lambda y, x: w.load(self.vector, places[own.tap(3 * y + x)], mask),
            lambda y, x, value: w.store(
                self.vector, value, w.advance(planes, own.points[y * size + x])
            ),
        )


class _Writer:
    """Planes to filters."""

    def __init__(self, own: _FilterWriter) -> None:
        self.own, self.w, self.vector = own, own.w, own.vector
        self.buffer = own.buffer() if own.kind.order != "columns" else ""

    def write(self, square: _Square) -> None:
        w, own = self.w, self.own
        if own.kind.order == "columns":
            own.full_or_not(square.columns, lambda full: self._direct(square, full))
            return
        assert own.kind.order == "row_taps", "the other orders are not asked for"
        steps: list[str | int] = [_TAPS * own.width, w["line_bytes"]]
        own.each_row(square, [self.buffer, square.planes], steps, lambda at: self._transform(at[0], str(own.width), at[1], None))
        own.full_or_not(square.rows, lambda full: self._empty(square, None if full else square.rows))

    def _direct(self, square: _Square, full: bool) -> None:
        w = self.w
        mask = None if full else w.first_lanes(self.own.lanes, square.columns)
        starts, steps = [square.filters, square.planes], [w["row_bytes"], w["line_bytes"]]
        self.own.each_row(square, starts, list(steps), lambda at: self._transform(at[0], w["tap_bytes"], at[1], mask))

    def _empty(self, square: _Square, have: str | None) -> None:
        lines = self.own.lines(square.filters, self.w["column_bytes"], square.columns)
        self.own.squares(lines, None, have, self._store, self.buffer)

    def _store(self, lines: list[str], buffer: str, mask: str | None) -> None:
        w = self.w
        rows = [w.advance(buffer, number * self.own.width) for number in range(self.own.lanes)]
        values = transpose(w, self.vector, [w.load(self.vector, row) for row in rows])
        # The missing columns are written to the last one's place before it.
        for line, value in reversed(list(zip(lines, values, strict=True))):
            w.store(self.vector, value, line, mask)

    def _transform(self, taps: str, stride: str, planes: str, mask: str | None) -> None:
        w, own = self.w, self.own
        places = [taps]
        for _ in range(_TAPS - 1):
            places.append(w.advance(places[-1], stride))
        size = own.kind.line.inputs
        write_square(
            w,
            self.vector,
            own.kind.line,
            lambda y, x: w.load(self.vector, w.advance(planes, own.points[y * size + x])),
            lambda y, x, value: w.store(self.vector, value, places[own.tap(3 * y + x)], mask),
        )
