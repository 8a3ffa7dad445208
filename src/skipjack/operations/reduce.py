"""Reductions over chosen axes: ``sum:4096x1024/axis=1``, ``max:64x64x64/axis=0,2``, ``mean``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core.nest import Access, Accumulator, Call, Constant, Load, Nest, Tensor, index
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem, shown
from skipjack.errors import ProblemError
from skipjack.operations.attributes import refuse_unknown

_AXIS = re.compile(r"-?[0-9]{1,4}")


@dataclass(frozen=True)
class Reduce:
    """The sum, largest or mean over some axes; the others remain, in order."""

    name: str
    reduction: str
    function: Callable[..., Any]

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64")
    domain = (-1.0, 1.0)

    @property
    def example(self) -> str:
        """A short key."""
        return f"{self.name}:4096x1024/axis=1"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """``axis`` is a list of axes, negative ones from the end; without it all are reduced."""
        refuse_unknown(attributes, ("axis",), where)
        text = attributes.get("axis", ",".join(map(str, range(len(shape)))))
        chosen: set[int] = set()
        for part in text.split(","):
            if not _AXIS.fullmatch(part):
                raise ProblemError(f"problem {where!r}: {shown(part)!r} is not an axis number")
            axis = int(part)
            if not -len(shape) <= axis < len(shape):
                raise ProblemError(
                    f"problem {where!r}: no axis {axis} in a shape of {len(shape)} axes"
                )
            chosen.add(axis % len(shape))
        return (("axis", ",".join(map(str, sorted(chosen)))),)

    def axes(self, problem: Problem) -> tuple[int, ...]:
        """The reduced axes, ascending."""
        return tuple(int(part) for part in problem.attribute("axis").split(","))

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """One array."""
        return (Tensor("x", problem.shape),)

    def output(self, problem: Problem) -> Tensor:
        """The axes that remain; a full reduction leaves one element."""
        reduced = self.axes(problem)
        kept = tuple(size for axis, size in enumerate(problem.shape) if axis not in reduced)
        return Tensor("out", kept or (1,))

    def nest(self, problem: Problem) -> Nest:
        """Neighbouring axes of one kind become one loop: ``i`` loops remain, ``r`` loops reduce."""
        groups = self._groups(problem)
        loops = tuple((name, size) for name, size, _ in groups)
        kept = [(name, size) for name, size, reduced in groups if not reduced]
        x = Tensor("x", tuple(size for _, size, _ in groups))
        out = Tensor("out", tuple(size for _, size in kept) or (1,))
        count = prod(size for _, size, reduced in groups if reduced)
        mean = Call("mul", (Accumulator(), Constant(1.0 / count)))
        return Nest(
            loops=loops,
            inputs=(Access(x, tuple(index(name) for name, _ in loops)),),
            output=Access(out, tuple(index(name) for name, _ in kept) or (index("none", 0),)),
            body=Load(0),
            reduction=self.reduction,
            epilogue=mean if self.name == "mean" else Accumulator(),
        )

    def _groups(self, problem: Problem) -> list[tuple[str, int, bool]]:
        """Runs of neighbouring axes that are all reduced or all kept, as (loop, size, reduced)."""
        axes = self.axes(problem)
        groups: list[tuple[str, int, bool]] = []
        for axis, size in enumerate(problem.shape):
            reduced = axis in axes
            if groups and groups[-1][2] == reduced:
                name, before, _ = groups[-1]
                groups[-1] = (name, before * size, reduced)
            else:
                groups.append((f"{'r' if reduced else 'i'}{len(groups)}", size, reduced))
        return groups

    def flops(self, problem: Problem) -> int:
        """One step for each element read."""
        return prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's own function."""
        result = self.function(arrays["x"], axis=self.axes(problem))
        return np.reshape(result, self.output(problem).shape)

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """NumPy's function on these arrays."""
        axes, out = self.axes(problem), arrays["out"]
        target = out if len(axes) < len(problem.shape) else out.reshape(())
        return partial(self.function, arrays["x"], axis=axes, out=target)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same over magnitudes."""
        return self.reference(problem, {"x": np.abs(arrays["x"])})

    def tolerance(self, problem: Problem) -> Tolerance:
        """A sum of n values; a maximum is exact but for the conversion of the reference."""
        if self.reduction == "max":
            return Tolerance(1.0)
        return Tolerance(4.0 + 2.0 * (prod(problem.shape) / self.output(problem).size) ** 0.5)


REDUCTIONS = (
    Reduce("sum", "sum", np.sum),
    Reduce("max", "max", np.max),
    Reduce("mean", "sum", np.mean),
)
