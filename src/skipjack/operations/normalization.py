"""Normalisations of each row, which is the last axis: ``softmax:256x512``, ``rmsnorm:4096x1024``.

Every one needs a statistic of the row before it can write an element of it, so each is a program
of several passes over a row. A pass over what the caches hold costs no memory traffic: the bytes of
a run are those of every array once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core.nest import Accumulator, Call, Constant, Load, Scalar, Tensor
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance, TorchFunction
from skipjack.core.problem import Problem
from skipjack.core.program import GroupResult, RowProgram, Statistic, View
from skipjack.operations.attributes import positive_number, refuse_unknown

_X = Load(0)


class RowOperation(ABC):
    """What they share: arrays of any rank, their last axis the rows, perhaps vectors along it."""

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64", "f16", "bf16")
    name: str
    domain = (-1.0, 1.0)
    whole: tuple[str, ...] = ("x",)
    """Inputs of the problem's shape."""
    vectors: tuple[str, ...] = ()
    """Further inputs, each of one row's length."""
    eps = 0.0
    """Default of the attribute of this name; without one there is no such attribute."""
    steps: int
    """Arithmetic steps for each element, exp and the like counted as one."""
    gpu_rows = ""
    """The ``NAME`` by which the Triton kernels for rows compute it; empty where none does."""
    gpu_gradients = ""
    """The module of Triton kernels for gradients that also sum over rows, or empty."""

    @property
    def example(self) -> str:
        """A short key."""
        return f"{self.name}:4096x1024"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Any shape; ``eps`` where a variance is divided by."""
        if not self.eps:
            refuse_unknown(attributes, (), where)
            return ()
        refuse_unknown(attributes, ("eps",), where)
        return (("eps", positive_number(attributes, "eps", self.eps, where)),)

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The arrays, then vectors along their last axis."""
        row = problem.shape[-1:]
        return (
            *(Tensor(name, problem.shape) for name in self.whole),
            *(Tensor(name, row) for name in self.vectors),
        )

    def output(self, problem: Problem) -> Tensor:
        """As the arrays."""
        return Tensor("out", problem.shape)

    def flops(self, problem: Problem) -> int:
        """Steps of the formula for each element; what is done once for a row is left out."""
        return self.steps * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The result by NumPy."""
        out = np.empty_like(arrays[self.whole[0]])
        self.write(problem, arrays, out)
        return out

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The same on these arrays."""
        return partial(self.write, problem, arrays, arrays["out"])

    @abstractmethod
    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """The result by NumPy, into `out`."""

    def _program(
        self,
        problem: Problem,
        statistics: tuple[Statistic, ...],
        body: Scalar,
        further: tuple[View, ...] = (),
        results: tuple[GroupResult, ...] = (),
    ) -> RowProgram:
        columns = problem.shape[-1]
        return RowProgram(
            groups=prod(problem.shape[:-1]),
            segments=1,
            columns=columns,
            inputs=(
                *(
                    View(tensor, group=columns if tensor.name in self.whole else 0, column=1)
                    for tensor in self.inputs(problem)
                ),
                *further,
            ),
            output=View(self.output(problem), group=columns, column=1),
            statistics=statistics,
            body=body,
            results=results,
        )


_SHIFTED = Call("sub", (_X, Accumulator("largest")))
_POWER = Call("exp", (_SHIFTED,))
_LARGEST = Statistic("largest", "max", _X)


class Softmax(RowOperation):
    """``exp(x - max) / sum(exp(x - max))`` along the last axis."""

    name = gpu_rows = "softmax"
    domain = (-8.0, 8.0)
    steps = 5

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """The largest, the sum, the quotient; the exponential stands in the last two passes."""
        share = Statistic("share", "sum", _POWER, Call("reciprocal", (Accumulator(),)))
        body = Call("mul", (_POWER, Accumulator("share")))
        return {"plain": self._program(problem, (_LARGEST, share), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """Exponentials and quotients where the result belongs."""
        x = arrays["x"]
        np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= out.sum(axis=-1, keepdims=True)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result, and more of it the further exponents are from 0: exp multiplies errors."""
        result = self.reference(problem, arrays)
        distance = arrays["x"].max(axis=-1, keepdims=True) - arrays["x"]
        spread = np.sum(result * distance, axis=-1, keepdims=True)
        scale: Array = result * (1.0 + distance + spread)
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``torch.softmax``."""
        return lambda t: {"out": torch.softmax(t["x"], -1)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """As `magnitude`."""
        distance = inputs["x"].amax(-1, keepdim=True) - inputs["x"]
        spread = (reference * distance).sum(-1, keepdim=True)
        return reference * (1.0 + distance + spread)

    def tolerance(self, problem: Problem) -> Tolerance:
        """An exponential, a reciprocal, a product, and a sum of positive values."""
        return Tolerance(8.0 + problem.shape[-1] ** 0.5)


class LogSoftmax(RowOperation):
    """``x - max - log(sum(exp(x - max)))`` along the last axis."""

    name = gpu_rows = "logsoftmax"
    domain = (-8.0, 8.0)
    steps = 5

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """The largest, the logarithm of the sum, the difference."""
        total = Statistic("log_sum", "sum", _POWER, Call("log", (Accumulator(),)))
        body = Call("sub", (_SHIFTED, Accumulator("log_sum")))
        return {"plain": self._program(problem, (_LARGEST, total), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """One temporary array for the exponentials."""
        x = arrays["x"]
        np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
        out -= np.log(np.exp(out).sum(axis=-1, keepdims=True))

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Both terms, and 1 for the relative error of the sum."""
        x = arrays["x"]
        distance = x.max(axis=-1, keepdims=True) - x
        scale: Array = 1.0 + distance + np.log(np.exp(-distance).sum(axis=-1, keepdims=True))
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``torch.log_softmax``."""
        return lambda t: {"out": torch.log_softmax(t["x"], -1)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """As `magnitude`."""
        distance = inputs["x"].amax(-1, keepdim=True) - inputs["x"]
        return 1.0 + distance + torch.exp(-distance).sum(-1, keepdim=True).log()

    def tolerance(self, problem: Problem) -> Tolerance:
        """Two subtractions, a logarithm, and a sum of positive values."""
        return Tolerance(8.0 + problem.shape[-1] ** 0.5)


class RmsNorm(RowOperation):
    """``x / sqrt(mean(x * x) + eps) * gamma`` along the last axis."""

    name = gpu_rows = "rmsnorm"
    vectors = ("gamma",)
    eps = 1e-6
    steps = 4

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """The mean square, then every element."""
        columns, eps = problem.shape[-1], float(problem.attribute("eps"))
        mean = Call("mul", (Accumulator(), Constant(1.0 / columns)))
        scale = Call("rsqrt", (Call("add", (mean, Constant(eps))),))
        statistic = Statistic("scale", "sum", Call("square", (_X,)), scale)
        body = Call("mul", (Call("mul", (_X, Accumulator("scale"))), Load(1)))
        return {"plain": self._program(problem, (statistic,), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """The squares stand where the result will."""
        x = arrays["x"]
        np.square(x, out=out)
        mean = out.mean(axis=-1, keepdims=True)
        np.divide(x, np.sqrt(mean + x.dtype.type(problem.attribute("eps"))), out=out)
        out *= arrays["gamma"]

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The result itself: nothing is subtracted."""
        return np.abs(self.reference(problem, arrays))

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``torch.nn.functional.rms_norm``."""
        normed, row = torch.nn.functional.rms_norm, list(problem.shape[-1:])
        eps = float(problem.attribute("eps"))
        return lambda t: {"out": normed(t["x"], row, t["gamma"], eps)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """As `magnitude`."""
        return reference.abs()

    def tolerance(self, problem: Problem) -> Tolerance:
        """A mean of positive values, then a few roundings."""
        return Tolerance(8.0 + problem.shape[-1] ** 0.5)


NORMALIZATIONS = (Softmax(), LogSoftmax(), RmsNorm())
