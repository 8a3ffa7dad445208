"""Elementwise operations: ``gelu:4096``, ``add:1024x1024``, ``add:64x128x56x56/y=128x1x1``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from skipjack.core.nest import Call, Load, Nest, Tensor
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem, parse_shape
from skipjack.operations.attributes import refuse_unknown
from skipjack.operations.broadcast import broadcast_shape, elementwise_nest, second_shape
from skipjack.operations.error_function import erf

_PIECE = 1 << 15
"""Elements of a large array that are computed at a time."""


@dataclass(frozen=True)
class Elementwise:
    """``out = function(x)`` or ``function(x, y)``, element by element.

    The main shape is that of x. The attribute ``y`` is the shape of the second operand where it is
    another one; the two are broadcast as NumPy does.
    """

    name: str
    function: Callable[..., Any]
    """NumPy's function; the scalar step of the nest has the operation's name or `step`."""
    operands: int
    step: str = ""
    domain: tuple[float, float] = (-1.0, 1.0)
    steps: int = 1
    """Steps of the formula for an element; exp, log, tanh, erf and sqrt count as one each."""
    error_eps: float = 2.0
    """How far a result may be off, in eps of its magnitude."""
    relative: bool = False
    """Errors are in proportion to the result alone, however small it is."""
    vector: bool = False
    """The second operand is a vector ``v`` along the last axis of x, whatever the shape."""

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64", "f16", "bf16")

    @property
    def example(self) -> str:
        """A short key."""
        return f"{self.name}:1024x1024"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Any shape; ``y`` for two operands, left out where it is the shape of x."""
        chosen = self.operands == 2 and not self.vector
        refuse_unknown(attributes, ("y",) if chosen else (), where)
        second = second_shape(attributes, shape, where)
        return (("y", second),) if second else ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """x, and y or v for two operands."""
        x = Tensor("x", problem.shape)
        if self.operands == 1:
            return (x,)
        if self.vector:
            return x, Tensor("v", problem.shape[-1:])
        second = dict(problem.attributes).get("y")
        return x, Tensor("y", parse_shape(second, problem.key) if second else problem.shape)

    def output(self, problem: Problem) -> Tensor:
        """The shape that the operands have together."""
        x, *others = self.inputs(problem)
        shape = x.shape
        for other in others:
            shape = broadcast_shape(shape, other.shape, problem.key)
        return Tensor("out", shape)

    def nest(self, problem: Problem) -> Nest:
        """One loop for every run of axes that all operands treat alike."""
        loads = tuple(Load(operand) for operand in range(self.operands))
        body = Call(self.step or self.name, loads)
        return elementwise_nest(self.inputs(problem), self.output(problem), body)

    def flops(self, problem: Problem) -> int:
        """Steps of the formula as one writes it, not of the code that computes exp and the like."""
        return self.steps * self.output(problem).size

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's own function, which broadcasts; large arrays of one shape in pieces.

        Functions of several steps would send whole arrays through memory for each.
        """
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        size = inputs[0].size
        if size <= _PIECE or len({array.shape for array in inputs}) > 1:
            whole: Array = self.function(*inputs)
            return whole
        flat = [array.reshape(-1) for array in inputs]
        result = np.empty(inputs[0].shape, inputs[0].dtype)
        for start in range(0, size, _PIECE):
            piece = slice(start, start + _PIECE)
            result.reshape(-1)[piece] = self.function(*(array[piece] for array in flat))
        return result

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """NumPy's function on these arrays."""
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        return partial(self.function, *inputs, out=arrays["out"])

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result's own size and, for sums, the operands': cancellation loses no more."""
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        scale: Array = self.scale(self.reference(problem, arrays), inputs)
        return scale

    def scale(self, result: Any, inputs: Sequence[Any]) -> Any:
        """The magnitude from the result and the operands, of NumPy or of another library."""
        scale = abs(result)
        if not self.relative:
            for one in inputs:
                scale = scale + abs(one)
        return scale

    def tolerance(self, problem: Problem) -> Tolerance:
        """By default one rounding, and one for the conversion of the reference.

        For a function without an exact method it is the error of the better implementations that
        are compared, NumPy's among them, and not only of the generated code.
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
    # Left of 0 these are the small difference of large terms: their errors go with the input.
    Elementwise("gelu", _gelu, 1, domain=(-5.0, 5.0), steps=5, error_eps=4.0),
    Elementwise("gelu_tanh", _gelu_tanh, 1, domain=(-5.0, 5.0), steps=9, error_eps=4.0),
)
