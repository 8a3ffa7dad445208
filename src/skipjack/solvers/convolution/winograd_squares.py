"""Turning squares of elements as LLVM IR: lines of memory become columns."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.packing import transpose
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Strided = tuple[str, Sequence[str]]
"""A pointer, and by how many bytes it moves on in each of several loops."""


def line_starts(w: WholeNumberWriter, start: str, stride: str, have: str, count: int) -> list[str]:
    """Where lines begin; those beyond the ones there are begin where the last one does."""
    last = w.sub(have, 1)
    return [w.advance(start, w.mul(w.least(at, last), stride)) for at in range(count)]


def turn_square(
    w: WholeNumberWriter, vector: VectorType, source: Sequence[str], target: Sequence[str]
) -> None:
    """As many lines as a vector has lanes, of as many elements, become columns."""
    values = transpose(w, vector, [w.load(vector, place) for place in source])
    # From the last one on: lines that stand for missing ones are written before what is there.
    for place, value in reversed(list(zip(target, values, strict=True))):
        w.store(vector, value, place)


def copy_elements(
    w: WholeNumberWriter,
    vector: VectorType,
    counts: Sequence[str | int],
    source: Strided,
    target: Strided,
) -> None:
    """One by one, in loops inside of each other: little code for what fills no square."""
    one = VectorType(vector.dtype, 1)

    def loop(level: int, pointers: Sequence[str]) -> None:
        if level == len(counts):
            w.store(one, w.load(one, pointers[0]), pointers[1])
            return

        def body(_: str, at: list[str]) -> list[str]:
            loop(level + 1, at)
            strides = source[1][level], target[1][level]
            return [w.advance(place, stride) for place, stride in zip(at, strides, strict=True)]

        w.loop_or_skip(str(counts[level]), [("ptr", pointer) for pointer in pointers], body)

    loop(0, (source[0], target[0]))
