"""``batchnorm:n8c64h56w56``: normalisation of each channel of an NCHW array, in MIOpen's letters.

``mode=train`` uses the statistics of the batch and saves them, ``mode=infer`` takes statistics as
inputs. ``mode=backward`` computes the gradients of x, gamma and beta of the training mode from the
saved statistics; ``mode=infer_backward`` those of inference. With a ``momentum``, training also
updates running statistics with those of the batch, whose variance is then the unbiased one; the new
values may overwrite the old ones.

In PyTorch ``train`` and ``infer`` are ``aten::native_batch_norm`` with ``training`` true and false
(``invstd`` is ``save_invstd``; inference saves nothing), and the two gradients are
``aten::native_batch_norm_backward`` with ``train`` true and false: the first takes ``save_mean``
and ``save_invstd``, the second ``running_mean`` and ``running_var``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    excerpt,
    parse_lettered_shape,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import positive_number, refuse_unknown
from skipjack.operations.batchnorm_numpy import (
    backward,
    backward_magnitudes,
    bessel_correction,
    forward,
    forward_magnitudes,
    infer_backward,
    infer_backward_magnitudes,
    moving_statistics,
)
from skipjack.operations.moments import Moments, mean_of_sum, normalized_value, one_pass, two_pass

_INPUTS = {
    "train": ("x", "gamma", "beta"),
    "infer": ("x", "gamma", "beta", "mean", "var"),
    "backward": ("dy", "x", "gamma", "mean", "invstd"),
    "infer_backward": ("dy", "x", "gamma", "mean", "var"),
}
_FURTHER = {
    "train": ("mean", "invstd"),
    "infer": (),
    "backward": ("dgamma", "dbeta"),
    "infer_backward": ("dgamma", "dbeta"),
}
"""Further outputs, each with one element for each channel."""
_RUNNING, _NEXT = ("running_mean", "running_var"), ("next_mean", "next_var")
"""Additional inputs and outputs of training with a momentum."""
_STEPS = {"train": 8, "infer": 4, "backward": 10, "infer_backward": 5}
_WHOLE = ("x", "dy")
"""Inputs of the problem's shape; the others have one element for each channel."""


class BatchNorm:
    """Batch normalisation of an NCHW array, by `mode`."""

    name = "batchnorm"
    operation_class: OperationClass = "vector"
    example = "batchnorm:n8c64h56w56"
    dtypes = ("f32", "f64", "f16", "bf16")
    # Positive, as a variance and a standard deviation are among the inputs.
    domain = (0.25, 1.75)

    def parse_shape(self, text: str, where: str) -> tuple[tuple[int, ...], str]:
        """``n c h w``; all but c are optional, with a default of 1."""
        return parse_lettered_shape(text, "nchw", where, {"n": 1, "h": 1, "w": 1})

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """``mode``, ``eps`` if a variance is used, and ``momentum`` for training."""
        mode = attributes.get("mode", "train")
        if mode not in _INPUTS:
            known = ", ".join(_INPUTS)
            raise ProblemError(
                f"problem {where!r}: mode is {excerpt(mode)!r}; it must be one of {known}"
            )
        if mode == "backward":
            refuse_unknown(attributes, ("mode",), where)
            return (("mode", mode),)
        moves = mode == "train" and "momentum" in attributes
        of_training = ("momentum",) if mode == "train" else ()
        refuse_unknown(attributes, ("eps", "mode", *of_training), where)
        found = (("eps", positive_number(attributes, "eps", 1e-5, where)), ("mode", mode))
        momentum = positive_number(attributes, "momentum", 1.0, where)
        return (*found, ("momentum", momentum)) if moves else found

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        channels = problem.shape[1:2]
        return tuple(
            Tensor(name, problem.shape if name in _WHOLE else channels)
            for name in (*_INPUTS[problem.attribute("mode")], *_if_moving(problem, _RUNNING))
        )

    def output(self, problem: Problem) -> Tensor:
        """The normalised array, or the gradient of x."""
        return Tensor("out", problem.shape)

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The main output, then saved statistics or the gradients of gamma and beta."""
        further = (*_FURTHER[problem.attribute("mode")], *_if_moving(problem, _NEXT))
        channels = problem.shape[1:2]
        return self.output(problem), *(Tensor(name, channels) for name in further)

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """Programs in which a channel is a group and its part of one image a segment."""
        n, c, h, w = problem.shape
        count, mode = n * h * w, problem.attribute("mode")
        if mode == "backward":
            return {"plain": self._program(problem, _backward(count))}
        eps = float(problem.attribute("eps"))
        given = Moments(Load(3), Load(4), eps)
        if mode == "infer":
            return {"plain": self._program(problem, _Formula((), _normalized(given)))}
        if mode == "infer_backward":
            return {"plain": self._program(problem, _infer_backward(given))}
        first = len(self.inputs(problem))
        by_two = two_pass(Load(0), count, eps)
        by_one = one_pass(Load(0), (Load(first), Load(first + 1), Load(first + 2)), count, eps)
        x = Tensor("x", problem.shape)
        starts = (0, n // 2 * c * h * w + h * w // 2, ((n - 1) * c + 1) * h * w - 1)
        some = tuple(View(x, h * w, offset=start) for start in starts)
        return {
            "two_pass": self._program(problem, _training(problem, by_two)),
            "one_pass": self._program(problem, _training(problem, by_one), some),
        }

    def _program(
        self, problem: Problem, formula: _Formula, some: tuple[View, ...] = ()
    ) -> RowProgram:
        n, c, h, w = problem.shape
        # A single channel is contiguous.
        segments, columns = (n, h * w) if c > 1 else (1, n * h * w)
        whole = partial(View, group=h * w, segment=c * h * w if segments > 1 else 0, column=1)
        out, *further = self.outputs(problem)
        return RowProgram(
            groups=c,
            segments=segments,
            columns=columns,
            inputs=(
                *(
                    whole(tensor) if tensor.name in _WHOLE else View(tensor, group=1)
                    for tensor in self.inputs(problem)
                ),
                *some,
            ),
            output=whole(out),
            statistics=formula.statistics,
            body=formula.body,
            results=tuple(
                GroupResult(View(tensor, group=1), value)
                for tensor, value in zip(further, formula.results, strict=True)
            ),
        )

    def flops(self, problem: Problem) -> int:
        """Arithmetic per element; work that is done once for a channel does not count."""
        return _STEPS[problem.attribute("mode")] * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        return self.references(problem, arrays)["out"]

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        out = np.empty_like(arrays["x"])
        return {"out": out, **_write(problem, arrays, out)}

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        def call() -> None:
            for name, values in _write(problem, arrays, arrays["out"]).items():
                arrays[name][...] = values

        return call

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``batch_norm`` with the statistics that training saves, or its gradients."""
        mode, aten = problem.attribute("mode"), torch.ops.aten
        attributes = dict(problem.attributes)
        eps, momentum = (float(attributes.get(name, 1e-5)) for name in ("eps", "momentum"))

        def compute(t: Mapping[str, Any]) -> dict[str, Any]:
            if mode == "infer":
                args = (t["x"], t["mean"], t["var"], t["gamma"], t["beta"])
                return {"out": torch.nn.functional.batch_norm(*args, training=False, eps=eps)}
            if mode == "train":
                # PyTorch changes them in place; copies keep the inputs unchanged.
                running = {name: t[name].clone() for name in _RUNNING if name in t}
                before = (running.get(name) for name in _RUNNING)
                args = (t["x"], t["gamma"], t["beta"], *before, True, momentum, eps)
                found = torch.native_batch_norm(*args)
                names = ("out", "mean", "invstd", *(_NEXT if running else ()))
                return dict(zip(names, (*found, *running.values()), strict=True))
            if mode == "infer_backward":
                given = (t["mean"], t["var"], None, None, False)
            else:
                given = (None, None, t["mean"], t["invstd"], True)
            rest = (*given, eps, [True, True, True])
            found = aten.native_batch_norm_backward(t["dy"], t["x"], t["gamma"], *rest)
            return dict(zip(("out", "dgamma", "dbeta"), found, strict=True))

        return compute

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.magnitudes(problem, arrays)["out"]

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        mode = problem.attribute("mode")
        if mode == "backward":
            return backward_magnitudes(arrays)
        eps = float(problem.attribute("eps"))
        if mode == "infer_backward":
            return infer_backward_magnitudes(arrays, eps)
        found = forward_magnitudes(arrays, eps, train=mode == "train")
        if _momentum(problem):
            sizes = np.abs(arrays["x"]).mean(axis=(0, 2, 3)), arrays["x"].var(axis=(0, 2, 3))
            found |= moving_statistics(arrays, sizes, _momentum(problem))
        return found

    def tolerance(self, problem: Problem) -> Tolerance:
        """Sums over a channel, if any, then a few roundings."""
        n, _, h, w = problem.shape
        count = 1 if problem.attribute("mode") == "infer" else n * h * w
        return Tolerance(8.0 + 2.0 * count**0.5)


def _write(problem: Problem, arrays: Arrays, out: Array) -> dict[str, Array]:
    """Compute the main output into `out` with NumPy; returns the other outputs."""
    mode = problem.attribute("mode")
    if mode == "backward":
        return backward(arrays, out)
    eps = float(problem.attribute("eps"))
    if mode == "infer_backward":
        return infer_backward(arrays, eps, out)
    found = forward(arrays, eps, out, train=mode == "train")
    if _momentum(problem):
        x = arrays["x"]
        found |= moving_statistics(
            arrays, (found["mean"], x.var(axis=(0, 2, 3))), _momentum(problem)
        )
    return found


def _momentum(problem: Problem) -> float:
    """The momentum of the running statistics; 0 without running statistics."""
    return float(dict(problem.attributes).get("momentum", "0"))


def _if_moving(problem: Problem, names: tuple[str, ...]) -> tuple[str, ...]:
    return names if _momentum(problem) else ()


@dataclass(frozen=True, slots=True)
class _Formula:
    """The parts of a program; results are in the order of `_FURTHER`."""

    statistics: tuple[Statistic, ...]
    body: Scalar
    results: tuple[Scalar, ...] = ()


def _normalized(moments: Moments) -> Scalar:
    return normalized_value(Load(0), moments, Load(1), Load(2))


def _training(problem: Problem, moments: Moments) -> _Formula:
    saved, momentum = [moments.mean, moments.scale], _momentum(problem)
    if momentum:
        n, _, h, w = problem.shape
        unbiased = Call("mul", (moments.variance, Constant(bessel_correction(n * h * w))))
        saved.append(_towards(Load(3), moments.mean, momentum))
        saved.append(_towards(Load(4), unbiased, momentum))
    return _Formula(moments.statistics, _normalized(moments), tuple(saved))


def _towards(old: Scalar, new: Scalar, momentum: float) -> Scalar:
    kept = Call("mul", (old, Constant(1.0 - momentum)))
    return Call("add", (kept, Call("mul", (new, Constant(momentum)))))


def _backward(count: int) -> _Formula:
    """``gamma * invstd * (dy - mean(dy) - (x - mean) * invstd**2 * mean(dy * (x - mean)))``."""
    dy, x, gamma, mean, invstd = (Load(operand) for operand in range(5))
    centred = Call("sub", (x, mean))
    total, projection = Accumulator("dy_sum"), Accumulator("projection")
    statistics = (
        Statistic("dy_sum", "sum", dy),
        Statistic("projection", "sum", Call("mul", (dy, centred))),
    )
    factor = Call("mul", (mean_of_sum(projection, count), Call("square", (invstd,))))
    straight = Call("sub", (dy, mean_of_sum(total, count)))
    across = Call("sub", (straight, Call("mul", (centred, factor))))
    body = Call("mul", (across, Call("mul", (gamma, invstd))))
    return _Formula(statistics, body, (Call("mul", (projection, invstd)), total))


def _infer_backward(given: Moments) -> _Formula:
    """``gamma * invstd * dy``: the statistics do not depend on x."""
    dy, x, gamma = (Load(operand) for operand in range(3))
    total, projection = Accumulator("dy_sum"), Accumulator("projection")
    statistics = (
        Statistic("dy_sum", "sum", dy),
        Statistic("projection", "sum", Call("mul", (dy, Call("sub", (x, given.mean))))),
    )
    body = Call("mul", (dy, Call("mul", (gamma, given.scale))))
    return _Formula(statistics, body, (Call("mul", (projection, given.scale)), total))


BATCHNORMS = (BatchNorm(),)
