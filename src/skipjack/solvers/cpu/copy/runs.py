"""Runs of contiguous elements in vectors: zeros, and copies of any length.

A run that is not a multiple of a vector ends with a vector that overlaps the one before: writing a
few elements twice costs less than a mask, and is possible on every CPU.
"""

from __future__ import annotations

from collections.abc import Callable

from skipjack.native import VectorType, function
from skipjack.solvers.cpu.copy.loads import Number, NumberWriter

GROUP = 8
"""Most vectors that are written without a loop."""

RunVector = tuple[Number, VectorType]
"""First element and type of a vector."""


def run_vectors(count: int, vector: VectorType, start: int = 0) -> list[RunVector]:
    """Vectors that cover exactly `count` elements."""
    lanes = min(vector.lanes, 1 << (count.bit_length() - 1))
    starts = list(range(0, count - lanes + 1, lanes))
    if count % lanes:
        starts.append(count - lanes)
    return [(start + each, VectorType(vector.dtype, lanes)) for each in starts]


def each_group(
    w: NumberWriter,
    count: int,
    vector: VectorType,
    body: Callable[[list[RunVector]], None],
    most: int = GROUP,
) -> None:
    """Write `body` for the vectors of a run, at most `most` at a time: long runs are loops."""
    size = most * vector.lanes
    rounds = count // size if count > size else 0

    def group(number: str, _: list[str]) -> list[str]:
        start = w.times(0 if number == "0" else number, size)
        body([(w.plus(start, part * vector.lanes), vector) for part in range(most)])
        return []

    if rounds:
        w.loop(rounds, [], group)
    rest = count - rounds * size
    if rest and rounds and rest < vector.lanes:
        body([(count - vector.lanes, vector)])
    elif rest:
        body(run_vectors(rest, vector, rounds * size))


def fill(w: NumberWriter, out: str, count: int, vector: VectorType) -> None:
    """Write `count` zeros."""

    def group(parts: list[RunVector]) -> None:
        for start, kind in parts:
            w.store(kind, kind.constant(0.0), w.moved(out, start, kind.item_bytes))

    each_group(w, count, vector, group)


Function = tuple[str, set[str]]
"""The text of a function and the declarations that it needs."""


class CopyFunctions:
    """Functions that a copy calls, each written once."""

    def __init__(self, vector: VectorType) -> None:
        self.vector = vector
        self.functions: dict[str, Function] = {}

    def zeros(self, w: NumberWriter, out: str, count: Number) -> None:
        """Write `count` contiguous zeros."""
        self.boxes(w, out, count, 1, [])

    def boxes(
        self, w: NumberWriter, out: str, count: Number, stride: int, inner: list[tuple[int, int]]
    ) -> None:
        """Write zeros in `count` boxes of extents and strides (`inner`), which lie `stride`
        apart."""
        if count == 0:
            return
        numbers = (stride, *(number for dim in inner for number in dim))
        name = "_".join(["zeros", *(str(number).replace("-", "m") for number in numbers)])
        if name not in self.functions:
            self.functions[name] = _filling(name, stride, inner, self.vector)
        w.emit(f"call void @{name}(ptr {out}, i64 {count})")

    def move(self, w: NumberWriter, out: str, source: str, count: Number) -> None:
        """Copy `count` contiguous elements."""
        if count == 0:
            return
        if "move" not in self.functions:
            self.functions["move"] = _moving("move", self.vector)
        w.emit(f"call void @move(ptr {out}, ptr {source}, i64 {count})")


def _filling(name: str, stride: int, inner: list[tuple[int, int]], vector: VectorType) -> Function:
    """``void @name(ptr %out, i64 %count)``."""
    w, item = NumberWriter(), vector.item_bytes
    dims = _joined(inner)
    run = dims.pop()[0] if dims and dims[-1][1] == 1 else 1

    def around(out: str, left: list[tuple[int, int]], body: Callable[[str], None]) -> None:
        if not left:
            body(out)
            return

        def step(_: str, at: list[str]) -> list[str]:
            around(at[0], left[1:], body)
            return [w.advance(at[0], left[0][1] * item)]

        w.loop(left[0][0], [("ptr", out)], step)

    def one_run(out: str) -> None:
        total = w.mul("%count", run) if run > 1 else "%count"
        _run(w, total, vector, lambda piece, mask: _zero(w, out, piece, mask))

    def outermost(_: str, at: list[str]) -> list[str]:
        around(at[0], dims, lambda out: fill(w, out, run, vector))
        return [w.advance(at[0], stride * item)]

    if stride == run:
        around("%out", dims, one_run)
    else:
        w.loop_or_skip("%count", [("ptr", "%out")], outermost)
    return _internal(w, f"void @{name}(ptr %out, i64 %count)", vector)


def _moving(name: str, vector: VectorType) -> Function:
    """``void @name(ptr %out, ptr %source, i64 %count)``: a copy of any length."""
    w = NumberWriter()

    def move(piece: RunVector, mask: str | None) -> None:
        start, kind = piece
        value = w.load(kind, w.moved("%source", start, kind.item_bytes), mask)
        w.store(kind, value, w.moved("%out", start, kind.item_bytes), mask)

    _run(w, "%count", vector, move)
    return _internal(w, f"void @{name}(ptr noalias %out, ptr noalias %source, i64 %count)", vector)


def _internal(w: NumberWriter, signature: str, vector: VectorType) -> Function:
    w.emit("ret void")
    bits = 8 * vector.lanes * vector.item_bytes
    text = function(w, signature, bits, linkage="internal", attributes="noinline")
    return text, w.declarations


def _zero(w: NumberWriter, out: str, piece: RunVector, mask: str | None) -> None:
    start, kind = piece
    w.store(kind, kind.constant(0.0), w.moved(out, start, kind.item_bytes), mask)


def _run(
    w: NumberWriter, count: str, vector: VectorType, body: Callable[[RunVector, str | None], None]
) -> None:
    """A run whose length is known at run time: four vectors at a time, one at a time, a masked
    one."""
    lanes = vector.lanes

    def vectors(first: Number, size: int, rounds: str) -> None:
        def group(number: str, _: list[str]) -> list[str]:
            start = w.plus(first, w.times(number, size * lanes))
            for part in range(size):
                body((w.plus(start, part * lanes), vector), None)
            return []

        w.loop_or_skip(rounds, [], group)

    fours = w.value(f"udiv i64 {count}, {4 * lanes}")
    vectors(0, 4, fours)
    done = w.mul(fours, 4 * lanes)
    rest = w.sub(count, done)
    ones = w.value(f"udiv i64 {rest}, {lanes}")
    vectors(done, 1, ones)
    done = w.add(done, w.mul(ones, lanes))
    left = w.sub(count, done)
    some = w.value(f"icmp ne i64 {left}, 0")
    w.when(some, lambda: body((done, vector), w.first_lanes(lanes, left)))


def _joined(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extents and strides, the largest stride first, with contiguous ones joined."""
    result: list[tuple[int, int]] = []
    for extent, stride in sorted(dims, key=lambda dim: -dim[1]):
        if result and result[-1][1] == extent * stride:
            result[-1] = (result[-1][0] * extent, stride)
        else:
            result.append((extent, stride))
    return result
