"""Gradients of normalisations of rows: ``softmax_backward:256x512``.

``dy`` is the gradient of the normalisation's result; ``out`` is that of its input. In PyTorch
``softmax_backward`` and ``logsoftmax_backward`` are ``aten::_softmax_backward_data`` and
``aten::_log_softmax_backward_data`` along the last axis: they take the result y, not the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skipjack.core.nest import Accumulator, Call, Load
from skipjack.core.operation import Array, Arrays, Tolerance, TorchFunction
from skipjack.core.problem import Problem
from skipjack.core.program import RowProgram, Statistic
from skipjack.operations.normalization import RowOperation

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
        """The products stand where the result will."""
        dy, y = arrays["dy"], arrays["y"]
        np.multiply(dy, y, out=out)
        np.subtract(dy, out.sum(axis=-1, keepdims=True), out=out)
        out *= y

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same formula with nothing subtracted."""
        dy, y = np.abs(arrays["dy"]), np.abs(arrays["y"])
        scale: Array = y * (dy + (dy * y).sum(axis=-1, keepdims=True))
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """What autograd calls for ``torch.softmax``."""
        backward = torch.ops.aten._softmax_backward_data
        return lambda t: {"out": backward(t["dy"], t["y"], -1, t["dy"].dtype)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """As `magnitude`."""
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
        """The exponentials stand where the result will."""
        dy = arrays["dy"]
        np.exp(arrays["y"], out=out)
        out *= dy.sum(axis=-1, keepdims=True)
        np.subtract(dy, out, out=out)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Both terms; the error of an exponential may grow with the exponent."""
        dy, y = np.abs(arrays["dy"]), arrays["y"]
        share = np.exp(y) * (1.0 + np.abs(y))
        scale: Array = dy + share * dy.sum(axis=-1, keepdims=True)
        return scale

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """What autograd calls for ``torch.log_softmax``."""
        backward = torch.ops.aten._log_softmax_backward_data
        return lambda t: {"out": backward(t["dy"], t["y"], -1, t["dy"].dtype)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """As `magnitude`."""
        dy, y = inputs["dy"].abs(), inputs["y"]
        return dy + y.exp() * (1.0 + y.abs()) * dy.sum(-1, keepdim=True)

    def tolerance(self, problem: Problem) -> Tolerance:
        """A sum, an exponential, a product and a difference."""
        return Tolerance(6.0 + 2.0 * problem.shape[-1] ** 0.5)


ROW_GRADIENTS = (SoftmaxBackward(), LogSoftmaxBackward())
