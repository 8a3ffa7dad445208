"""Reductions over chosen axes: ``sum:4096x1024/axis=1``, ``max:64x64/axis=0``, ``norm:4096``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core import (
    Access,
    Accumulator,
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
    excerpt,
    index,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import refuse_unknown

_AXIS = re.compile(r"-?[0-9]{1,4}")


_ELEMENT = Load(0)


def _as_it_is(count: int) -> Scalar:
    return Accumulator()


@dataclass(frozen=True)
class Reduce:
    """The sum, maximum, mean and the like over some axes; the others remain in order."""

    name: str
    reduction: str
    function: Callable[..., Any]
    """Function of NumPy with the parameters ``axis`` and ``out``."""
    body: Scalar = _ELEMENT
    """The expression for each element that is reduced."""
    epilogue: Callable[[int], Scalar] = _as_it_is
    """Maps the number of reduced elements to an expression of the reduced value."""
    steps: int = 1
    """Arithmetic steps for each element."""
    domain: tuple[float, float] = (-1.0, 1.0)

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64", "f16", "bf16")

    @property
    def example(self) -> str:
        return f"{self.name}:4096x1024/axis=1"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """``axis`` lists axes, negative ones counted from the end, or is ``all``, the default."""
        refuse_unknown(attributes, ("axis",), where)
        text = attributes.get("axis", "all")
        if text == "all":
            text = ",".join(map(str, range(len(shape))))
        chosen: set[int] = set()
        for part in text.split(","):
            if not _AXIS.fullmatch(part):
                raise ProblemError(
                    f"problem {where!r}: {excerpt(part)!r} is not an axis number; "
                    "write axis=0 or axis=0,2 or axis=all"
                )
            axis = int(part)
            if not -len(shape) <= axis < len(shape):
                raise ProblemError(
                    f"problem {where!r}: axis {axis} is out of range; "
                    f"the axes are 0 to {len(shape) - 1}, or -{len(shape)} to -1 from the end"
                )
            if axis % len(shape) in chosen:
                raise ProblemError(
                    f"problem {where!r}: axis {axis} is given twice; give each axis once"
                )
            chosen.add(axis % len(shape))
        return (("axis", ",".join(map(str, sorted(chosen)))),)

    def axes(self, problem: Problem) -> tuple[int, ...]:
        """The reduced axes, ascending."""
        return tuple(int(part) for part in problem.attribute("axis").split(","))

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return (Tensor("x", problem.shape),)

    def output(self, problem: Problem) -> Tensor:
        """An array of the remaining axes; one element after a full reduction."""
        reduced = self.axes(problem)
        kept = tuple(size for axis, size in enumerate(problem.shape) if axis not in reduced)
        return Tensor("out", kept or (1,))

    def nest(self, problem: Problem) -> Nest:
        """Adjacent axes of one kind become one loop: ``i`` loops remain, ``r`` loops reduce."""
        groups = self._groups(problem)
        loops = tuple((name, size) for name, size, _ in groups)
        kept = [(name, size) for name, size, reduced in groups if not reduced]
        x = Tensor("x", tuple(size for _, size, _ in groups))
        out = Tensor("out", tuple(size for _, size in kept) or (1,))
        count = prod(size for _, size, reduced in groups if reduced)
        return Nest(
            loops=loops,
            inputs=(Access(x, tuple(index(name) for name, _ in loops)),),
            output=Access(out, tuple(index(name) for name, _ in kept) or (index("none", 0),)),
            body=self.body,
            reduction=self.reduction,
            epilogue=self.epilogue(count),
        )

    def _groups(self, problem: Problem) -> list[tuple[str, int, bool]]:
        """Runs of adjacent axes that are all reduced or all kept, as (loop, size, reduced)."""
        reduced_axes = self.axes(problem)
        axes = [(size, at in reduced_axes) for at, size in enumerate(problem.shape)]
        if any(size > 1 and reduced for size, reduced in axes):
            # An axis of size 1 does not separate its neighbours.
            axes = [(size, reduced) for size, reduced in axes if size > 1]
        groups: list[tuple[str, int, bool]] = []
        for size, reduced in axes:
            if groups and groups[-1][2] == reduced:
                name, before, _ = groups[-1]
                groups[-1] = (name, before * size, reduced)
            else:
                groups.append((f"{'r' if reduced else 'i'}{len(groups)}", size, reduced))
        return groups

    def flops(self, problem: Problem) -> int:
        return self.steps * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        result = self.function(arrays["x"], axis=self.axes(problem))
        return np.reshape(result, self.output(problem).shape)

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The function of NumPy on these arrays."""
        axes, out = self.axes(problem), arrays["out"]
        target = out if len(axes) < len(problem.shape) else out.reshape(())
        return partial(self.function, arrays["x"], axis=axes, out=target)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same over magnitudes; for min and max the maximum, as the minimum may be 0."""
        function = np.max if self.exact else self.function
        sizes = function(np.abs(arrays["x"]), axis=self.axes(problem))
        return np.reshape(sizes, self.output(problem).shape)

    @property
    def exact(self) -> bool:
        """Whether the result is one of the elements, so that nothing is rounded."""
        return self.reduction in ("max", "min")

    def tolerance(self, problem: Problem) -> Tolerance:
        """The error of a sum; min and max are exact except for converting the reference."""
        if self.exact:
            return Tolerance(1.0)
        return Tolerance(4.0 + 2.0 * (prod(problem.shape) / self.output(problem).size) ** 0.5)


def _mean(count: int) -> Scalar:
    return Call("mul", (Accumulator(), Constant(1.0 / count)))


def _root(count: int) -> Scalar:
    return Call("sqrt", (Accumulator(),))


def _sumsq(x: Array, axis: Sequence[int], out: Array | None = None) -> Array:
    """Without an array for the squares; for a full sum, BLAS is three times as fast."""
    every = list(range(x.ndim))
    kept = [at for at in every if at not in axis]
    if kept:
        result: Array = np.einsum(x, every, x, every, kept, out=out)
        return result
    out = np.empty((), x.dtype) if out is None else out
    out[...] = np.vdot(x, x)
    return out


def _norm(x: Array, axis: Sequence[int], out: Array | None = None) -> Array:
    squares = _sumsq(x, axis, out)
    result: Array = np.sqrt(squares, out=squares)
    return result


def _absmax(x: Array, axis: Sequence[int], out: Array | None = None) -> Array:
    """Two passes without an array of magnitudes, which are faster than one pass with it."""
    low = np.min(x, axis=tuple(axis))
    high = np.asarray(np.max(x, axis=tuple(axis), out=out))
    result: Array = np.maximum(high, np.negative(low), out=high)
    return result


_SQUARE = Call("mul", (_ELEMENT, _ELEMENT))
_NEAR_ONE = (1 - 2.0**-7, 1 + 2.0**-7 + 2.0**-14 / 3)
"""Logarithms of numbers in this range have a mean of 0, so that long products do not overflow."""

REDUCTIONS = (
    Reduce("sum", "sum", np.sum),
    Reduce("mean", "sum", np.mean, epilogue=_mean),
    Reduce("prod", "prod", np.prod, domain=_NEAR_ONE),
    Reduce("max", "max", np.max),
    Reduce("min", "min", np.min),
    Reduce("absmax", "max", _absmax, body=Call("abs", (_ELEMENT,)), steps=2),
    Reduce("sumsq", "sum", _sumsq, body=_SQUARE, steps=2),
    Reduce("norm", "sum", _norm, body=_SQUARE, epilogue=_root, steps=2),
)
