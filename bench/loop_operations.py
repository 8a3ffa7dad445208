"""Four operations of a plug-in, each one loop nest that no operation of Skipjack has.

``skipjack tune pairwise_distance:300x200x64 --plugin bench/loop_operations.py``

============================  =====================================================
``stencil5:HxW``              the mean of a cell and its four neighbours
``batched_dot:BxK``           the dot product of each pair of rows
``outer_sum:MxN``             each element of a vector plus each of another
``pairwise_distance:MxNxK``   the Euclidean distance of each row to each other row
============================  =====================================================

The policy for loop nests is evaluated on them (`loop_suite`); it is never trained on one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skipjack import operations
from skipjack.core import (
    Access,
    Accumulator,
    Affine,
    Array,
    Arrays,
    Call,
    Constant,
    Load,
    Nest,
    OperationClass,
    Problem,
    Scalar,
    Tensor,
    Tolerance,
    index,
)
from skipjack.errors import ProblemError


class _Plain:
    """What the four have in common: a name, so many sizes, no attributes, two dtypes."""

    name = ""
    example = ""
    sizes = 0
    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64")
    domain = (-1.0, 1.0)

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        if attributes:
            raise ProblemError(f"problem {where!r}: {self.name} has no attributes")
        if len(shape) != self.sizes:
            raise ProblemError(f"problem {where!r}: {self.name} has {self.sizes} sizes")
        return ()


class Stencil5(_Plain):
    name, example, sizes = "stencil5", "stencil5:512x512", 2

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        height, width = problem.shape
        return (Tensor("x", (height + 2, width + 2)),)

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape)

    def nest(self, problem: Problem) -> Nest:
        (x,) = self.inputs(problem)
        height, width = problem.shape
        cells = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
        total: Scalar = Load(0)
        for operand in range(1, len(cells)):
            total = Call("add", (total, Load(operand)))
        return Nest(
            loops=(("h", height), ("w", width)),
            inputs=tuple(
                Access(x, (Affine((("h", 1),), row), Affine((("w", 1),), column)))
                for row, column in cells
            ),
            output=Access(self.output(problem), (index("h"), index("w"))),
            body=Call("mul", (total, Constant(0.2))),
        )

    def flops(self, problem: Problem) -> int:
        height, width = problem.shape
        return 5 * height * width

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        x = arrays["x"]
        total = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        result: Array = total * x.dtype.type(0.2)
        return result

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.reference(problem, {"x": np.abs(arrays["x"])})

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(8.0)


class BatchedDot(_Plain):
    name, example, sizes = "batched_dot", "batched_dot:256x512", 2

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return Tensor("x", problem.shape), Tensor("y", problem.shape)

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape[:1])

    def nest(self, problem: Problem) -> Nest:
        batch, length = problem.shape
        at = (index("b"), index("k"))
        return Nest(
            loops=(("b", batch), ("k", length)),
            inputs=tuple(Access(tensor, at) for tensor in self.inputs(problem)),
            output=Access(self.output(problem), (index("b"),)),
            body=Call("mul", (Load(0), Load(1))),
            reduction="sum",
        )

    def flops(self, problem: Problem) -> int:
        batch, length = problem.shape
        return 2 * batch * length

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        result: Array = np.einsum("bk,bk->b", arrays["x"], arrays["y"])
        return result

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.reference(problem, {name: np.abs(each) for name, each in arrays.items()})

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(4.0 + 4.0 * problem.shape[1] ** 0.5)


class OuterSum(_Plain):
    name, example, sizes = "outer_sum", "outer_sum:512x512", 2

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        rows, columns = problem.shape
        return Tensor("x", (rows,)), Tensor("y", (columns,))

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape)

    def nest(self, problem: Problem) -> Nest:
        rows, columns = problem.shape
        x, y = self.inputs(problem)
        return Nest(
            loops=(("m", rows), ("n", columns)),
            inputs=(Access(x, (index("m"),)), Access(y, (index("n"),))),
            output=Access(self.output(problem), (index("m"), index("n"))),
            body=Call("add", (Load(0), Load(1))),
        )

    def flops(self, problem: Problem) -> int:
        rows, columns = problem.shape
        return rows * columns

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        result: Array = np.add.outer(arrays["x"], arrays["y"])
        return result

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.reference(problem, {name: np.abs(each) for name, each in arrays.items()})

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(2.0)


class PairwiseDistance(_Plain):
    name, example, sizes = "pairwise_distance", "pairwise_distance:256x256x64", 3
    operation_class: OperationClass = "cube"

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        rows, others, length = problem.shape
        return Tensor("x", (rows, length)), Tensor("y", (others, length))

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape[:2])

    def nest(self, problem: Problem) -> Nest:
        rows, others, length = problem.shape
        x, y = self.inputs(problem)
        return Nest(
            loops=(("m", rows), ("n", others), ("k", length)),
            inputs=(Access(x, (index("m"), index("k"))), Access(y, (index("n"), index("k")))),
            output=Access(self.output(problem), (index("m"), index("n"))),
            body=Call("square", (Call("sub", (Load(0), Load(1))),)),
            reduction="sum",
            epilogue=Call("sqrt", (Accumulator(),)),
        )

    def flops(self, problem: Problem) -> int:
        rows, others, length = problem.shape
        return 3 * rows * others * length

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        result = np.empty(problem.shape[:2], arrays["x"].dtype)
        for row, x in enumerate(arrays["x"]):
            result[row] = np.sqrt(np.square(x - arrays["y"]).sum(axis=1))
        return result

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Differences cancel, so errors go with the lengths of the rows."""
        x, y = (np.sqrt(np.square(arrays[name]).sum(axis=1)) for name in ("x", "y"))
        result: Array = np.add.outer(x, y)
        return result

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(4.0 + 4.0 * problem.shape[2] ** 0.5)


OPERATIONS = (Stencil5(), BatchedDot(), OuterSum(), PairwiseDistance())

for _operation in OPERATIONS:
    operations.register(_operation)
