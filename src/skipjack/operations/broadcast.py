"""An array combined with a vector along its last axis: ``bias:1024x1024``, ``scale:1024x1024``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core.nest import Access, Call, Load, Nest, Tensor, index
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem
from skipjack.operations.attributes import refuse_unknown


@dataclass(frozen=True)
class Broadcast:
    """``out[i,j] = function(x[i,j], v[j])``; leading axes are flattened to one."""

    name: str
    step: str
    function: Callable[..., Any]

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64")
    domain = (-1.0, 1.0)

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
        """The array and the vector."""
        return Tensor("x", problem.shape), Tensor("v", problem.shape[-1:])

    def output(self, problem: Problem) -> Tensor:
        """As the array."""
        return Tensor("out", problem.shape)

    def nest(self, problem: Problem) -> Nest:
        """Rows and columns."""
        rows, columns = prod(problem.shape[:-1]), problem.shape[-1]
        both = (index("i"), index("j"))
        return Nest(
            loops=(("i", rows), ("j", columns)),
            inputs=(
                Access(Tensor("x", (rows, columns)), both),
                Access(Tensor("v", (columns,)), (index("j"),)),
            ),
            output=Access(Tensor("out", (rows, columns)), both),
            body=Call(self.step, (Load(0), Load(1))),
        )

    def flops(self, problem: Problem) -> int:
        """One step for each element."""
        return prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's broadcasting."""
        result: Array = self.function(arrays["x"], arrays["v"])
        return result

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """NumPy's function on these arrays."""
        return partial(self.function, arrays["x"], arrays["v"], out=arrays["out"])

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result's own size and the operands'."""
        return np.abs(self.reference(problem, arrays)) + np.abs(arrays["x"]) + np.abs(arrays["v"])

    def tolerance(self, problem: Problem) -> Tolerance:
        """One rounding, and one for the conversion of the reference."""
        return Tolerance(2.0)


BROADCASTS = (Broadcast("bias", "add", np.add), Broadcast("scale", "mul", np.multiply))
