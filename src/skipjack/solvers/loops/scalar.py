"""Scalar steps of a body, and the arithmetic of reductions, on vectors."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from skipjack.core.nest import SLOPES, Accumulator, Call, Constant, Load, Scalar
from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.functions import FUNCTIONS, function_code, slope_code

_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
# `maximum` and `minimum` keep NaN, as NumPy does; x86's plain max does not. Which of 0 and -0 is
# larger is left open (`nsz`), as NumPy leaves it: to order them takes three instructions more, and
# the smallest of the rows of a matrix took 20 us instead of 12.
_EXTREMES = {"max": "maximum", "min": "minimum"}
_INTRINSICS = {"abs": "fabs", "sqrt": "sqrt"}
_COMBINING = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
_IDENTITIES = {"sum": 0.0, "max": -inf, "min": inf, "prod": 1.0}

Leaf = Callable[[Load | Accumulator], str]
"""The value of a load or an accumulator at the place in question."""


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
    """The value of a tree of scalar steps."""
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
    """One step of a reduction. The largest and the smallest of anything and NaN are NaN."""
    return step(writer, vector, _COMBINING[reduction], [left, right])


def larger(writer: IRWriter, vector: VectorType, value: str, than: str) -> str:
    """The larger one, the second where one is NaN: a single instruction on x86."""
    text, lanes = vector.text, vector.lanes
    more = writer.value(f"fcmp ogt {text} {value}, {than}")
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return writer.value(f"select {truth} {more}, {text} {value}, {text} {than}")


def horizontal(writer: IRWriter, vector: VectorType, reduction: str, value: str) -> str:
    """Reduce the lanes of a vector to a scalar, by halves."""
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
