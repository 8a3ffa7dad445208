"""Scalar expressions of a loop body on vectors, and the arithmetic of reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from skipjack.core import SLOPES, Accumulator, Call, Constant, Load, Scalar
from skipjack.native import IRWriter, VectorType
from skipjack.solvers.cpu.ir.functions import FUNCTIONS, function_code, slope_code

# Scalar operations of a body, and the steps of reductions, on vectors.

_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
# `maximum` and `minimum` keep NaN, as NumPy does; x86's plain max does not. Which of 0 and -0 is
# larger is left open (`nsz`), as NumPy leaves it: to order them takes three instructions more, and
# the smallest of the rows of a matrix took 20 us instead of 12.
_EXTREMES = {"max": "maximum", "min": "minimum"}
_INTRINSICS = {"abs": "fabs", "sqrt": "sqrt"}
_COMBINING = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
_IDENTITIES = {"sum": 0.0, "max": -inf, "min": inf, "prod": 1.0}

Leaf = Callable[[Load | Accumulator], str]
"""Gives the value of a load or an accumulator at the current position."""


def step(writer: IRWriter, vector: VectorType, name: str, arguments: list[str]) -> str:
    """Apply one scalar function to values of a type."""
    if name in _INSTRUCTIONS:
        return writer.value(f"{_INSTRUCTIONS[name]} {vector.text} {arguments[0]}, {arguments[1]}")
    if name in _EXTREMES:
        return writer.call(vector, _EXTREMES[name], arguments, "nsz")
    if name in _INTRINSICS:
        return writer.call(vector, _INTRINSICS[name], arguments)
    if name in SLOPES:
        return slope_code(writer, vector, name, *arguments)
    value = arguments[0]
    if name in FUNCTIONS:
        return function_code(writer, vector, name, value)
    if name == "neg":
        return writer.value(f"fneg {vector.text} {value}")
    if name == "square":
        return writer.value(f"fmul {vector.text} {value}, {value}")
    if name == "reciprocal":
        return writer.value(f"fdiv {vector.text} {vector.constant(1.0)}, {value}")
    if name == "relu":
        return step(writer, vector, "max", [value, vector.constant(0.0)])
    raise ValueError(f"no code for scalar function {name}")


def evaluated(writer: IRWriter, kind: VectorType, scalar: Scalar, leaf: Leaf) -> str:
    """The value of a tree of scalar operations."""
    match scalar:
        case Constant(value):
            return kind.constant(value)
        case Call(name, arguments):
            given = [evaluated(writer, kind, part, leaf) for part in arguments]
            return step(writer, kind, name, given)
        case _:
            return leaf(scalar)


def identity(reduction: str) -> float:
    """The value that a reduction starts from."""
    return _IDENTITIES[reduction]


def combine(writer: IRWriter, vector: VectorType, reduction: str, left: str, right: str) -> str:
    """One step of a reduction. max and min of NaN and any number are NaN."""
    return step(writer, vector, _COMBINING[reduction], [left, right])


def larger(writer: IRWriter, vector: VectorType, value: str, than: str) -> str:
    """The larger one, or `than` if one is NaN: a single instruction on x86."""
    text, lanes = vector.text, vector.lanes
    more = writer.value(f"fcmp ogt {text} {value}, {than}")
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return writer.value(f"select {truth} {more}, {text} {value}, {text} {than}")


def horizontal(writer: IRWriter, vector: VectorType, reduction: str, value: str) -> str:
    """Reduce the lanes of a vector to a scalar, halving the vector in each step."""
    while vector.lanes > 1:
        half = VectorType(vector.dtype, vector.lanes // 2)
        low, high = (_half(writer, vector, value, start) for start in (0, half.lanes))
        value = combine(writer, half, reduction, low, high)
        vector = half
    return value


def _half(writer: IRWriter, vector: VectorType, value: str, start: int) -> str:
    if vector.lanes == 2:
        return writer.value(f"extractelement {vector.text} {value}, i64 {start}")
    lanes = range(start, start + vector.lanes // 2)
    return writer.shuffle(vector, (value, "poison"), lanes)


# Reducing the lanes of several vectors at once, to one vector with an element for each.
#
# Vectors are joined in pairs. Each of them then takes half the lanes, so that a vector of 16
# lanes holds the results of 16 vectors after four steps: a third of the work of reducing them
# one by one, and one store instead of 16.


def contiguous_runs(offsets: Sequence[int], lanes: int) -> Iterator[tuple[int, ...]]:
    """Ascending offsets in contiguous runs, each a power of two long and at most `lanes`."""
    left = list(offsets)
    while left:
        length = 1
        while 2 * length <= min(lanes, len(left)) and left[2 * length - 1] - left[0] < 2 * length:
            length *= 2
        yield tuple(left[:length])
        del left[:length]


def reduced_lanes(
    writer: IRWriter, vector: VectorType, reduction: str, values: list[str]
) -> tuple[VectorType, str]:
    """The reduced lanes of some vectors: a power of two of them, at most as many as lanes."""
    count = len(values)
    if count == 1:
        return VectorType(vector.dtype, 1), horizontal(writer, vector, reduction, values[0])
    parts = 1  # how many of the original vectors each remaining one holds
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [_joined(writer, vector, reduction, pair, parts) for pair in pairs]
        parts *= 2
    kind, value = vector, values[0]
    while kind.lanes > count:
        half = VectorType(kind.dtype, kind.lanes // 2)
        low, high = (
            writer.shuffle(kind, (value, "poison"), _halves(kind.lanes, count, odd))
            for odd in (0, 1)
        )
        kind, value = half, combine(writer, half, reduction, low, high)
    return kind, value


def _joined(
    writer: IRWriter, vector: VectorType, reduction: str, pair: tuple[str, str], parts: int
) -> str:
    """Two vectors with `parts` parts each joined to one with twice as many parts of half the
    length."""
    low, high = (
        writer.shuffle(vector, pair, _halves(2 * vector.lanes, 2 * parts, odd)) for odd in (0, 1)
    )
    return combine(writer, vector, reduction, low, high)


def _halves(lanes: int, parts: int, odd: int) -> list[int]:
    """Lanes of the first or second half of each of `parts` parts."""
    length = lanes // parts
    return [
        part * length + odd * (length // 2) + at
        for part in range(parts)
        for at in range(length // 2)
    ]
