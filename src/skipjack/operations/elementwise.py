"""Elementwise operations of one or two arrays of one shape: ``add:1024x1024``, ``gelu:4096``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from skipjack.core.nest import Access, Call, Load, Nest, Tensor, index
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem
from skipjack.operations.attributes import refuse_unknown
from skipjack.operations.error_function import erf


@dataclass(frozen=True)
class Elementwise:
    """``out[i] = function(x[i])`` or ``function(x[i], y[i])``; all axes are flattened to one."""

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

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64")

    @property
    def example(self) -> str:
        """A short key."""
        return f"{self.name}:1024x1024"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Any shape, no attributes."""
        refuse_unknown(attributes, (), where)
        return ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """x, and y for two operands."""
        return tuple(Tensor(name, problem.shape) for name in ("x", "y")[: self.operands])

    def output(self, problem: Problem) -> Tensor:
        """One element for each of the inputs'."""
        return Tensor("out", problem.shape)

    def nest(self, problem: Problem) -> Nest:
        """A single flat loop: all accesses are contiguous."""
        size = prod(problem.shape)
        flat = [Access(Tensor(t.name, (size,)), (index("i"),)) for t in self.inputs(problem)]
        loads = tuple(Load(operand) for operand in range(self.operands))
        return Nest(
            loops=(("i", size),),
            inputs=tuple(flat),
            output=Access(Tensor("out", (size,)), (index("i"),)),
            body=Call(self.step or self.name, loads),
        )

    def flops(self, problem: Problem) -> int:
        """Steps of the formula as one writes it, not of the code that computes exp and the like."""
        return self.steps * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's own function."""
        result: Array = self.function(*(arrays[t.name] for t in self.inputs(problem)))
        return result

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """NumPy's function on these arrays."""
        inputs = [arrays[tensor.name] for tensor in self.inputs(problem)]
        return partial(self.function, *inputs, out=arrays["out"])

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result's own size and, for sums, the operands': cancellation loses no more."""
        if self.relative:
            return np.abs(self.reference(problem, arrays))
        sizes = sum(np.abs(arrays[t.name]) for t in self.inputs(problem))
        scale: Array = np.abs(self.reference(problem, arrays)) + np.asarray(sizes)
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
