"""Elementwise operations: ``gelu:4096``, ``add:1024x1024``, ``add:64x128x56x56/y=128x1x1``.

Operands of different shapes are broadcast as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import pi, prod, sqrt
from string import ascii_lowercase
from typing import Any

import numpy as np

from skipjack.core import (
    Access,
    Affine,
    Array,
    Arrays,
    Call,
    Load,
    Nest,
    OperationClass,
    Problem,
    Scalar,
    Tensor,
    Tolerance,
    excerpt,
    format_shape,
    index,
    parse_shape,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import refuse_unknown
from skipjack.operations.error_function import erf

# Arrays of different shapes combined element by element, by NumPy's rules.
#
# Shapes are aligned at their last axes. If one of them has a size of 1 along an axis, or lacks the
# axis, its elements are repeated along it. Leading axes of size 1 therefore have no effect and are
# left out.

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the result, or several adjacent ones: its size, and which operands have it.

    An operand that does not have it repeats its elements along it.
    """

    size: int
    had_by: tuple[bool, ...]


def second_shape(attributes: Mapping[str, str], first: Shape, where: str) -> str:
    """The canonical text of the attribute ``y``; empty if it equals the main shape.

    `ProblemError` if it is not a shape or cannot be broadcast with the first shape.
    """
    if "y" not in attributes:
        return ""
    second = without_leading_ones(parse_shape(attributes["y"], where))
    broadcast_shape(first, second, where)
    return "" if second == without_leading_ones(first) else format_shape(second)


def without_leading_ones(shape: Shape) -> Shape:
    """The shape without leading axes of size 1, but with at least one axis."""
    first = next((at for at, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:] or (1,)


def is_padded(actual: Shape, expected: Shape, rank: int) -> bool:
    """Whether shapes differ only in leading axes of size 1, up to the rank of the result.

    NumPy ignores them. A scalar may also have no axis.
    """
    lead = len(actual) - len(expected)
    if lead < 0:
        return (1,) * -lead + actual == expected
    return len(actual) <= rank and actual == (1,) * lead + expected


def broadcast_shape(first: Shape, second: Shape, where: str = "") -> Shape:
    """The shape of the result; `ProblemError` if the shapes cannot be broadcast."""
    rank = max(len(first), len(second))
    sizes = []
    for at, (one, other) in enumerate(zip(*_padded((first, second), rank), strict=True)):
        if one != other and 1 not in (one, other):
            shapes = f"{excerpt(format_shape(first))} and {excerpt(format_shape(second))}"
            raise ProblemError(
                f"problem {where!r}: shapes {shapes} cannot be broadcast: their sizes along axis "
                f"{at - rank} are {one} and {other}; sizes must be equal or 1"
            )
        sizes.append(max(one, other))
    return tuple(sizes)


def elementwise_nest(inputs: Sequence[Tensor], output: Tensor, body: Scalar) -> Nest:
    """The nest with as few loops as possible.

    Adjacent axes that behave alike for all operands are merged, so that arrays of one shape take a
    single flat loop and a bias for each channel of an NCHW array takes three loops.
    """
    axes = _merged(_axes([tensor.shape for tensor in inputs], output.shape))
    loops = [(_loop_name(at), axis.size) for at, axis in enumerate(axes)]
    own = [
        [loop for loop, axis in zip(loops, axes, strict=True) if axis.had_by[at]]
        for at in range(len(inputs))
    ]
    return Nest(
        loops=tuple(loops),
        inputs=tuple(_access(t.name, having) for t, having in zip(inputs, own, strict=True)),
        output=_access(output.name, loops),
        body=body,
    )


def _padded(shapes: Sequence[Shape], rank: int) -> list[Shape]:
    return [(1,) * (rank - len(shape)) + shape for shape in shapes]


def _axes(shapes: Sequence[Shape], output: Shape) -> list[_Axis]:
    """Axes with more than one element; a single axis of size 1 if there are none."""
    sizes = zip(output, zip(*_padded(shapes, len(output)), strict=True), strict=True)
    found = [_Axis(size, tuple(own == size for own in owns)) for size, owns in sizes if size > 1]
    return found or [_Axis(1, (True,) * len(shapes))]


def _merged(axes: Sequence[_Axis]) -> list[_Axis]:
    alike = groupby(axes, key=lambda axis: axis.had_by)
    return [_Axis(prod(axis.size for axis in group), had_by) for had_by, group in alike]


def _loop_name(at: int) -> str:
    """i, j, k and so on."""
    letters = ascii_lowercase[ascii_lowercase.index("i") :]
    return letters[at] if at < len(letters) else f"i{at}"


def _access(name: str, loops: Sequence[tuple[str, int]]) -> Access:
    """Access to an array with one axis for each loop; to a single element without loops."""
    shape = tuple(size for _, size in loops) or (1,)
    return Access(Tensor(name, shape), tuple(index(loop) for loop, _ in loops) or (Affine(),))


# Elementwise operations: ``gelu:4096``, ``add:1024x1024``, ``add:64x128x56x56/y=128x1x1``.

_CHUNK = 1 << 15
"""Elements of a large array that are computed at once."""


@dataclass(frozen=True)
class Elementwise:
    """``out = function(x)`` or ``function(x, y)``, element by element.

    The main shape is that of x. The attribute ``y`` is the shape of the second operand if it
    differs; the two are broadcast as NumPy does.
    """

    name: str
    function: Callable[..., Any]
    """The function of NumPy; the scalar step of the nest is `step` or has the operation's name."""
    operands: int
    step: str = ""
    domain: tuple[float, float] = (-1.0, 1.0)
    steps: int = 1
    """Arithmetic steps for an element; exp, log, tanh, erf and sqrt count as one each."""
    error_eps: float = 2.0
    """The error bound of a result, in eps of its magnitude."""
    relative: bool = False
    """Whether errors are proportional to the result, however small it is."""
    vector: bool = False
    """Whether the second operand is a vector ``v`` along the last axis of x."""

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64", "f16", "bf16")

    @property
    def example(self) -> str:
        return f"{self.name}:1024x1024"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Any shape; ``y`` for two operands, omitted if it is the shape of x."""
        chosen = self.operands == 2 and not self.vector
        refuse_unknown(attributes, ("y",) if chosen else (), where)
        second = second_shape(attributes, shape, where)
        return (("y", second),) if second else ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        x = Tensor("x", problem.shape)
        if self.operands == 1:
            return (x,)
        if self.vector:
            return x, Tensor("v", problem.shape[-1:])
        second = dict(problem.attributes).get("y")
        return x, Tensor("y", parse_shape(second, problem.key) if second else problem.shape)

    def output(self, problem: Problem) -> Tensor:
        """An array of the broadcast shape of the operands."""
        x, *others = self.inputs(problem)
        shape = x.shape
        for other in others:
            shape = broadcast_shape(shape, other.shape, problem.key)
        return Tensor("out", shape)

    def nest(self, problem: Problem) -> Nest:
        """One loop for every run of axes that behave alike for all operands."""
        loads = tuple(Load(operand) for operand in range(self.operands))
        body = Call(self.step or self.name, loads)
        return elementwise_nest(self.inputs(problem), self.output(problem), body)

    def flops(self, problem: Problem) -> int:
        """Steps of the formula; exp and the like count as one, however they are computed."""
        return self.steps * self.output(problem).size

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The function of NumPy, which broadcasts; large arrays of one shape in chunks.

        Otherwise functions of several steps would stream whole arrays through memory each time.
        """
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        size = inputs[0].size
        if size <= _CHUNK or len({array.shape for array in inputs}) > 1:
            whole: Array = self.function(*inputs)
            return whole
        flat = [array.reshape(-1) for array in inputs]
        result = np.empty(inputs[0].shape, inputs[0].dtype)
        for start in range(0, size, _CHUNK):
            piece = slice(start, start + _CHUNK)
            result.reshape(-1)[piece] = self.function(*(array[piece] for array in flat))
        return result

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The function of NumPy on these arrays."""
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        return partial(self.function, *inputs, out=arrays["out"])

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The magnitude of the result and, for sums, of the operands, which bounds cancellation."""
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        scale: Array = self.scale(self.reference(problem, arrays), inputs)
        return scale

    def scale(self, result: Any, inputs: Sequence[Any]) -> Any:
        """The magnitude from the result and the operands, which may be of any array library."""
        scale = abs(result)
        if not self.relative:
            for one in inputs:
                scale = scale + abs(one)
        return scale

    def tolerance(self, problem: Problem) -> Tolerance:
        """By default one rounding, and one for the conversion of the reference.

        For a function without a correctly rounded method it is the error of good implementations,
        including that of NumPy, and not only of the generated code.
        """
        return Tolerance(self.error_eps)


def _relu(x: Array, out: Array | None = None) -> Array:
    result: Array = np.maximum(x, x.dtype.type(0), out=out)
    return result


def _rsqrt(x: Array, out: Array | None = None) -> Array:
    out = np.sqrt(x, out=out)
    result: Array = np.reciprocal(out, out=out)
    return result


def _one_and_exp_of_minus(x: Array, out: Array | None) -> Array:
    out = np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1
    return out


def _sigmoid(x: Array, out: Array | None = None) -> Array:
    out = _one_and_exp_of_minus(x, out)
    result: Array = np.reciprocal(out, out=out)
    return result


def _silu(x: Array, out: Array | None = None) -> Array:
    out = _one_and_exp_of_minus(x, out)
    result: Array = np.divide(x, out, out=out)
    return result


def _gelu(x: Array, out: Array | None = None) -> Array:
    result: Array = np.multiply(0.5 * x, 1 + erf(x * sqrt(0.5)), out=out)
    return result


def _gelu_tanh(x: Array, out: Array | None = None) -> Array:
    inner = np.tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x))
    result: Array = np.multiply(0.5 * x, 1 + inner, out=out)
    return result


ELEMENTWISE = (
    Elementwise("add", np.add, 2),
    Elementwise("sub", np.subtract, 2),
    Elementwise("mul", np.multiply, 2),
    Elementwise("div", np.divide, 2, domain=(0.5, 1.5)),
    Elementwise("maximum", np.maximum, 2, step="max"),
    Elementwise("minimum", np.minimum, 2, step="min"),
    Elementwise("bias", np.add, 2, step="add", vector=True),
    Elementwise("scale", np.multiply, 2, step="mul", vector=True),
    Elementwise("neg", np.negative, 1),
    Elementwise("abs", np.abs, 1),
    Elementwise("square", np.square, 1),
    Elementwise("sqrt", np.sqrt, 1, domain=(0.0, 1.0)),
    Elementwise("reciprocal", np.reciprocal, 1, domain=(0.5, 1.5)),
    Elementwise("relu", _relu, 1),
    Elementwise("exp", np.exp, 1, domain=(-10.0, 10.0), error_eps=4.0, relative=True),
    Elementwise("log", np.log, 1, domain=(0.0, 10.0), error_eps=5.0, relative=True),
    Elementwise("tanh", np.tanh, 1, domain=(-4.0, 4.0), error_eps=6.0, relative=True),
    Elementwise("erf", erf, 1, domain=(-3.0, 3.0), error_eps=10.0, relative=True),
    Elementwise("rsqrt", _rsqrt, 1, domain=(0.1, 10.0), steps=2, relative=True),
    Elementwise("sigmoid", _sigmoid, 1, domain=(-8.0, 8.0), steps=4, error_eps=6.0, relative=True),
    Elementwise("silu", _silu, 1, domain=(-8.0, 8.0), steps=4, error_eps=6.0, relative=True),
    # For negative x these are small differences of large terms: errors scale with the input.
    Elementwise("gelu", _gelu, 1, domain=(-5.0, 5.0), steps=5, error_eps=4.0),
    Elementwise("gelu_tanh", _gelu_tanh, 1, domain=(-5.0, 5.0), steps=9, error_eps=4.0),
)
