"""Normalizations of each row, which is the last axis, and their gradients.

``softmax:256x512``, ``rmsnorm:4096x1024``, ``softmax_backward:256x512``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core import (
    Accumulator,
    Array,
    Arrays,
    Call,
    Constant,
    GroupResult,
    Load,
    OperationClass,
    Problem,
    RowProgram,
    Scalar,
    Statistic,
    Tensor,
    Tolerance,
    TorchFunction,
    View,
)
from skipjack.operations.attributes import positive_number, refuse_unknown

# Normalisations of each row, which is the last axis: ``softmax:256x512``, ``rmsnorm:4096x1024``.
#
# All need a statistic of the row before they can write its elements, so each is a program of
# several passes over a row. A pass over cached data causes no memory traffic, so that the bytes of
# a run are those of every array once.

_X = Load(0)


class RowOperation(ABC):
    """Base class: arrays of any rank, whose last axis is a row, and optional vectors along it."""

    operation_class: OperationClass = "vector"
    dtypes = ("f32", "f64", "f16", "bf16")
    name: str
    domain = (-1.0, 1.0)
    whole: tuple[str, ...] = ("x",)
    """Inputs with the shape of the problem."""
    vectors: tuple[str, ...] = ()
    """Further inputs, each with the length of a row."""
    eps = 0.0
    """Default of the attribute ``eps``; 0 if the operation does not have it."""
    steps: int
    """Arithmetic steps for each element; exp and the like count as one."""
    gpu_rows = ""
    """The ``NAME`` under which Triton kernels for rows compute it, or empty."""
    gpu_gradients = ""
    """The module of Triton kernels for gradients that also sum over rows, or empty."""

    @property
    def example(self) -> str:
        return f"{self.name}:4096x1024"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Any shape; ``eps`` if a variance is divided by."""
        if not self.eps:
            refuse_unknown(attributes, (), where)
            return ()
        refuse_unknown(attributes, ("eps",), where)
        return (("eps", positive_number(attributes, "eps", self.eps, where)),)

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The arrays, then the vectors."""
        row = problem.shape[-1:]
        return (
            *(Tensor(name, problem.shape) for name in self.whole),
            *(Tensor(name, row) for name in self.vectors),
        )

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape)

    def flops(self, problem: Problem) -> int:
        """Arithmetic per element; work that is done once for a row does not count."""
        return self.steps * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        out = np.empty_like(arrays[self.whole[0]])
        self.write(problem, arrays, out)
        return out

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        return partial(self.write, problem, arrays, arrays["out"])

    @abstractmethod
    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """Compute the result with NumPy into `out`."""

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
        """The maximum, the sum, the quotient; the last two passes compute the exponential."""
        share = Statistic("share", "sum", _POWER, Call("reciprocal", (Accumulator(),)))
        body = Call("mul", (_POWER, Accumulator("share")))
        return {"plain": self._program(problem, (_LARGEST, share), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """Exponentials and quotients are computed in place of the result."""
        x = arrays["x"]
        np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= out.sum(axis=-1, keepdims=True)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Grows with the distance of exponents from 0, as exp amplifies errors."""
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
        """The maximum, the logarithm of the sum, the difference."""
        total = Statistic("log_sum", "sum", _POWER, Call("log", (Accumulator(),)))
        body = Call("sub", (_SHIFTED, Accumulator("log_sum")))
        return {"plain": self._program(problem, (_LARGEST, total), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """Takes one temporary array for the exponentials."""
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
        """The squares are computed in place of the result."""
        x = arrays["x"]
        np.square(x, out=out)
        mean = out.mean(axis=-1, keepdims=True)
        np.divide(x, np.sqrt(mean + x.dtype.type(problem.attribute("eps"))), out=out)
        out *= arrays["gamma"]

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The magnitude of the result, as nothing is subtracted."""
        return np.abs(self.reference(problem, arrays))

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``torch.nn.functional.rms_norm``."""
        normed, row = torch.nn.functional.rms_norm, list(problem.shape[-1:])
        eps = float(problem.attribute("eps"))
        return lambda t: {"out": normed(t["x"], row, t["gamma"], eps)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        return reference.abs()

    def tolerance(self, problem: Problem) -> Tolerance:
        """A mean of positive values, then a few roundings."""
        return Tolerance(8.0 + problem.shape[-1] ** 0.5)


NORMALIZATIONS = (Softmax(), LogSoftmax(), RmsNorm())


# Gradients of normalisations of rows: ``softmax_backward:256x512``.
#
# ``dy`` is the gradient of the normalisation's result; ``out`` is that of its input. In PyTorch
# ``softmax_backward`` and ``logsoftmax_backward`` are ``aten::_softmax_backward_data`` and
# ``aten::_log_softmax_backward_data`` along the last axis, which take the result y, not the input.

_DY, _Y = Load(0), Load(1)
_TOTAL = Accumulator("total")


class SoftmaxBackward(RowOperation):
    """``y * (dy - sum(dy * y))`` along the last axis."""

    name = gpu_rows = "softmax_backward"
    whole = ("dy", "y")
    steps = 4

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """The sum, then every element."""
        total = Statistic("total", "sum", Call("mul", (_DY, _Y)))
        body = Call("mul", (_Y, Call("sub", (_DY, _TOTAL))))
        return {"plain": self._program(problem, (total,), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """The products are computed in place of the result."""
        dy, y = arrays["dy"], arrays["y"]
        np.multiply(dy, y, out=out)
        np.subtract(dy, out.sum(axis=-1, keepdims=True), out=out)
        out *= y

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same formula with magnitudes and without subtraction."""
        dy, y = np.abs(arrays["dy"]), np.abs(arrays["y"])
        scale: Array = y * (dy + (dy * y).sum(axis=-1, keepdims=True))
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """The function that autograd calls for ``torch.softmax``."""
        backward = torch.ops.aten._softmax_backward_data
        return lambda t: {"out": backward(t["dy"], t["y"], -1, t["dy"].dtype)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        dy, y = inputs["dy"].abs(), inputs["y"].abs()
        return y * (dy + (dy * y).sum(-1, keepdim=True))

    def tolerance(self, problem: Problem) -> Tolerance:
        """A sum of products, a difference and a product."""
        return Tolerance(4.0 + 2.0 * problem.shape[-1] ** 0.5)


class LogSoftmaxBackward(RowOperation):
    """``dy - exp(y) * sum(dy)`` along the last axis."""

    name = gpu_rows = "logsoftmax_backward"
    whole = ("dy", "y")
    # Logarithms of probabilities are negative; a gradient has either sign.
    domain = (-6.0, 1.0)
    steps = 4

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """The sum, then every element."""
        total = Statistic("total", "sum", _DY)
        body = Call("sub", (_DY, Call("mul", (Call("exp", (_Y,)), _TOTAL))))
        return {"plain": self._program(problem, (total,), body)}

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """The exponentials are computed in place of the result."""
        dy = arrays["dy"]
        np.exp(arrays["y"], out=out)
        out *= dy.sum(axis=-1, keepdims=True)
        np.subtract(dy, out, out=out)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Both terms; the error of an exponential grows with the exponent."""
        dy, y = np.abs(arrays["dy"]), arrays["y"]
        share = np.exp(y) * (1.0 + np.abs(y))
        scale: Array = dy + share * dy.sum(axis=-1, keepdims=True)
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """The function that autograd calls for ``torch.log_softmax``."""
        backward = torch.ops.aten._log_softmax_backward_data
        return lambda t: {"out": backward(t["dy"], t["y"], -1, t["dy"].dtype)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        dy, y = inputs["dy"].abs(), inputs["y"]
        return dy + y.exp() * (1.0 + y.abs()) * dy.sum(-1, keepdim=True)

    def tolerance(self, problem: Problem) -> Tolerance:
        """A sum, an exponential, a product and a difference."""
        return Tolerance(6.0 + 2.0 * problem.shape[-1] ** 0.5)


ROW_GRADIENTS = (SoftmaxBackward(), LogSoftmaxBackward())
