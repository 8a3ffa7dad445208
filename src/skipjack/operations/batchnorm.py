"""``batchnorm:n8c64h56w56``: normalisation of each channel of an NCHW array, in MIOpen's letters.

``mode=train`` uses the statistics of the batch itself, ``mode=infer`` those it is given.
``mode=backward`` is the gradient of the training mode's input, from the mean and the inverse
standard deviation that the forward pass saved; the gradients of gamma and beta, which are two
numbers for each channel, are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

import numpy as np

from skipjack.core.nest import Accumulator, Call, Load, Scalar, Tensor
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem, parse_lettered_shape, shown
from skipjack.core.program import RowProgram, Statistic, View
from skipjack.errors import ProblemError
from skipjack.operations.attributes import positive_number, refuse_unknown
from skipjack.operations.moments import (
    Moments,
    inverse_root,
    mean_of,
    normalized,
    one_pass,
    two_pass,
)

_INPUTS = {
    "train": ("x", "gamma", "beta"),
    "infer": ("x", "gamma", "beta", "mean", "var"),
    "backward": ("dy", "x", "gamma", "mean", "invstd"),
}
_STEPS = {"train": 8, "infer": 4, "backward": 10}
_WHOLE = ("x", "dy")
"""Inputs of the problem's shape; the others have one element for each channel."""
_AXES = (0, 2, 3)


class BatchNorm:
    """Batch normalisation of an NCHW array, by `mode`."""

    name = "batchnorm"
    operation_class: OperationClass = "vector"
    example = "batchnorm:n8c64h56w56"
    dtypes = ("f32", "f64")
    # A variance and a standard deviation are among the inputs.
    domain = (0.25, 1.75)

    def parse_shape(self, text: str, where: str) -> tuple[tuple[int, ...], str]:
        """``n c h w``; all but c may be left out and are 1 then."""
        return parse_lettered_shape(text, "nchw", where, {"n": 1, "h": 1, "w": 1})

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """``mode``, and ``eps`` where there is a variance."""
        mode = attributes.get("mode", "train")
        if mode not in _INPUTS:
            known = ", ".join(_INPUTS)
            raise ProblemError(
                f"problem {where!r}: mode is one of {known}, {shown(mode)!r} is none"
            )
        if mode == "backward":
            refuse_unknown(attributes, ("mode",), where)
            return (("mode", mode),)
        refuse_unknown(attributes, ("eps", "mode"), where)
        return (("eps", positive_number(attributes, "eps", 1e-5, where)), ("mode", mode))

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """Depends on the mode."""
        channels = problem.shape[1:2]
        return tuple(
            Tensor(name, problem.shape if name in _WHOLE else channels)
            for name in _INPUTS[problem.attribute("mode")]
        )

    def output(self, problem: Problem) -> Tensor:
        """The normalised array, or the gradient of x."""
        return Tensor("out", problem.shape)

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """A channel is a group, its part of one image a segment."""
        n, c, h, w = problem.shape
        count, mode = n * h * w, problem.attribute("mode")
        if mode == "backward":
            return {"plain": self._program(problem, *_backward(count))}
        eps = float(problem.attribute("eps"))
        if mode == "infer":
            given = Moments(Load(3), inverse_root(Load(4), eps))
            return {"plain": self._program(problem, (), _forward(given))}
        by_two = two_pass(Load(0), count, eps)
        by_one = one_pass(Load(0), (Load(3), Load(4), Load(5)), count, eps)
        x = Tensor("x", problem.shape)
        starts = (0, n // 2 * c * h * w + h * w // 2, ((n - 1) * c + 1) * h * w - 1)
        some = tuple(View(x, h * w, offset=start) for start in starts)
        return {
            "two_pass": self._program(problem, by_two.statistics, _forward(by_two)),
            "one_pass": self._program(problem, by_one.statistics, _forward(by_one), some),
        }

    def _program(
        self,
        problem: Problem,
        statistics: tuple[Statistic, ...],
        body: Scalar,
        further: tuple[View, ...] = (),
    ) -> RowProgram:
        n, c, h, w = problem.shape
        # One channel alone lies in one piece.
        segments, columns = (n, h * w) if c > 1 else (1, n * h * w)
        views = [
            View(tensor, group=h * w, segment=c * h * w if segments > 1 else 0, column=1)
            if tensor.name in (*_WHOLE, "out")
            else View(tensor, group=1)
            for tensor in (*self.inputs(problem), self.output(problem))
        ]
        return RowProgram(
            groups=c,
            segments=segments,
            columns=columns,
            inputs=(*views[:-1], *further),
            output=views[-1],
            statistics=statistics,
            body=body,
        )

    def flops(self, problem: Problem) -> int:
        """Steps of the formula for each element; what is done once for a channel is left out."""
        return _STEPS[problem.attribute("mode")] * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The result by NumPy."""
        out = np.empty_like(arrays["x"])
        self.write(problem, arrays, out)
        return out

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The same on these arrays."""
        return partial(self.write, problem, arrays, arrays["out"])

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        """By NumPy, with whole arrays for what is needed in between."""
        x, mode = arrays["x"], problem.attribute("mode")
        gamma = _channel(arrays["gamma"])
        if mode == "backward":
            mean, invstd = _channel(arrays["mean"]), _channel(arrays["invstd"])
            centred = x - mean
            projection = (arrays["dy"] * centred).mean(axis=_AXES, keepdims=True)
            centred *= projection * np.square(invstd)
            np.subtract(arrays["dy"], arrays["dy"].mean(axis=_AXES, keepdims=True), out=out)
            out -= centred
            out *= gamma * invstd
            return
        eps = x.dtype.type(problem.attribute("eps"))
        if mode == "infer":
            np.subtract(x, _channel(arrays["mean"]), out=out)
            variance = _channel(arrays["var"])
        else:
            np.subtract(x, x.mean(axis=_AXES, keepdims=True), out=out)
            variance = np.square(out).mean(axis=_AXES, keepdims=True)
        out *= gamma / np.sqrt(variance + eps)
        out += _channel(arrays["beta"])

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same formula with nothing subtracted; a mean is off by the size of what it is of."""
        x, mode = arrays["x"], problem.attribute("mode")
        gamma = np.abs(_channel(arrays["gamma"]))
        scale: Array
        if mode == "backward":
            dy, invstd = np.abs(arrays["dy"]), np.abs(_channel(arrays["invstd"]))
            centred = np.abs(x - _channel(arrays["mean"]))
            projection = (dy * centred).mean(axis=_AXES, keepdims=True) * np.square(invstd)
            scale = dy + dy.mean(axis=_AXES, keepdims=True) + centred * projection
            scale *= gamma * invstd
            return scale
        eps = float(problem.attribute("eps"))
        if mode == "infer":
            mean, variance = _channel(arrays["mean"]), _channel(arrays["var"])
            size = np.abs(mean)
        else:
            mean = x.mean(axis=_AXES, keepdims=True)
            variance = x.var(axis=_AXES, keepdims=True)
            size = np.abs(x).mean(axis=_AXES, keepdims=True)
        scale = (np.abs(x - mean) + size) * (gamma / np.sqrt(variance + eps))
        scale += np.abs(_channel(arrays["beta"]))
        return scale

    def tolerance(self, problem: Problem) -> Tolerance:
        """Sums over a channel where there are any, then a few roundings."""
        n, _, h, w = problem.shape
        count = 1 if problem.attribute("mode") == "infer" else n * h * w
        return Tolerance(8.0 + 2.0 * count**0.5)


def _forward(moments: Moments) -> Scalar:
    return normalized(Load(0), moments, Load(1), Load(2))


def _backward(count: int) -> tuple[tuple[Statistic, ...], Scalar]:
    """``gamma * invstd * (dy - mean(dy) - (x - mean) * invstd**2 * mean(dy * (x - mean)))``."""
    dy, x, gamma, mean, invstd = (Load(operand) for operand in range(5))
    centred = Call("sub", (x, mean))
    statistics = (
        mean_of("dy_mean", dy, count),
        mean_of("projection", Call("mul", (dy, centred)), count),
    )
    factor = Call("mul", (Accumulator("projection"), Call("square", (invstd,))))
    straight = Call("sub", (dy, Accumulator("dy_mean")))
    across = Call("sub", (straight, Call("mul", (centred, factor))))
    return statistics, Call("mul", (across, Call("mul", (gamma, invstd))))


def _channel(values: Array) -> Array:
    """A vector over the channels, to be broadcast against NCHW."""
    return values[:, None, None]
