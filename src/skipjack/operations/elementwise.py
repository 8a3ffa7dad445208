"""Elementwise operations of one or two arrays of one shape: ``add:1024x1024``, ``relu:4096``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from skipjack.core.nest import Access, Call, Load, Nest, Tensor, index
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem
from skipjack.operations.attributes import refuse_unknown


@dataclass(frozen=True)
class Elementwise:
    """``out[i] = function(x[i])`` or ``function(x[i], y[i])``; all axes are flattened to one."""

    name: str
    function: Callable[..., Any]
    """NumPy's function; the scalar step of the nest has the operation's name or `step`."""
    operands: int
    step: str = ""
    domain: tuple[float, float] = (-1.0, 1.0)

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
        """One step for each element."""
        return prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's own function."""
        result: Array = self.function(*(arrays[t.name] for t in self.inputs(problem)))
        return result

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result's own size and, for sums, the operands': cancellation loses no more."""
        sizes = sum(np.abs(arrays[t.name]) for t in self.inputs(problem))
        scale: Array = np.abs(self.reference(problem, arrays)) + np.asarray(sizes)
        return scale

    def tolerance(self, problem: Problem) -> Tolerance:
        """One rounding, and one for the conversion of the reference."""
        return Tolerance(2.0)


def _relu(x: Array) -> Array:
    result: Array = np.maximum(x, x.dtype.type(0))
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
)
