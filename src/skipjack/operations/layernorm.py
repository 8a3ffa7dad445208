"""Normalisation of each row by its own mean and variance, and the gradient of that.

``layernorm:4096x1024`` gives the normalised rows; with ``mode=train`` also the mean and the inverse
standard deviation of each, as ``aten::native_layer_norm`` does. ``layernorm_backward:4096x1024``
computes the gradients of x, gamma and beta from these, as ``aten::native_layer_norm_backward``
does. Statistics of 16-bit arrays are in float32.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from skipjack.core import (
    DTYPES,
    Accumulator,
    Array,
    Arrays,
    Call,
    ColumnSum,
    GroupResult,
    Load,
    Problem,
    RowProgram,
    Statistic,
    Tensor,
    Tolerance,
    TorchFunction,
    View,
    excerpt,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import positive_number, refuse_unknown
from skipjack.operations.moments import Moments, mean_of_sum, normalized_value, one_pass, two_pass
from skipjack.operations.normalization import RowOperation

_X = Load(0)
_MODES = ("infer", "train")
_SAVED = ("mean", "invstd")


def _of_rows(name: str, problem: Problem) -> Tensor:
    """A tensor with one element for each row."""
    dtype = "f32" if DTYPES[problem.dtype].is_narrow else ""
    return Tensor(name, problem.shape[:-1] or (1,), dtype)


class _SeveralOutputs(RowOperation):
    """Operations on rows with several outputs, which NumPy computes together."""

    def write(self, problem: Problem, arrays: Arrays, out: Array) -> None:
        self._write(problem, arrays, out)

    @abstractmethod
    def _write(self, problem: Problem, arrays: Arrays, out: Array) -> dict[str, Array]:
        """Compute the main output into `out` with NumPy; returns the other outputs."""

    @abstractmethod
    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """Scales of the rounding errors of all outputs."""

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        out = np.empty_like(arrays["x"])
        return {"out": out, **self._write(problem, arrays, out)}

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        def call() -> None:
            for name, values in self._write(problem, arrays, arrays["out"]).items():
                arrays[name][...] = values

        return call

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.magnitudes(problem, arrays)["out"]


class LayerNorm(_SeveralOutputs):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` along the last axis."""

    name = gpu_rows = "layernorm"
    vectors = ("gamma", "beta")
    eps = 1e-5
    steps = 8

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """``eps``, and ``mode`` if it is not ``infer``."""
        refuse_unknown(attributes, ("eps", "mode"), where)
        eps = positive_number(attributes, "eps", self.eps, where)
        mode = attributes.get("mode", "infer")
        if mode not in _MODES:
            raise ProblemError(
                f"problem {where!r}: mode is {excerpt(mode)!r}; it must be {' or '.join(_MODES)}"
            )
        return (("eps", eps), ("mode", mode)) if mode == "train" else (("eps", eps),)

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The normalised rows, and in training the statistics for their gradient."""
        saved = _SAVED if _is_training(problem) else ()
        return self.output(problem), *(_of_rows(name, problem) for name in saved)

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """Programs with two passes for the statistics, or one."""
        columns, eps = problem.shape[-1], float(problem.attribute("eps"))
        x = self.inputs(problem)[0]
        some = tuple(View(x, columns, offset=at) for at in (0, columns // 2, columns - 1))
        three = Load(3), Load(4), Load(5)
        ways: dict[str, tuple[Moments, tuple[View, ...]]] = {
            "two_pass": (two_pass(_X, columns, eps), ()),
            "one_pass": (one_pass(_X, three, columns, eps), some),
        }
        saved = [View(tensor, group=1) for tensor in self.outputs(problem)[1:]]
        return {
            name: self._program(
                problem,
                by.statistics,
                normalized_value(_X, by, Load(1), Load(2)),
                further,
                tuple(map(GroupResult, saved, (by.mean, by.scale))),
            )
            for name, (by, further) in ways.items()
        }

    def _write(self, problem: Problem, arrays: Arrays, out: Array) -> dict[str, Array]:
        """Normalise; returns the mean and the inverse deviation of each row.

        Takes one temporary array for the squares, as `np.var` does.
        """
        x = arrays["x"]
        mean = x.mean(axis=-1, keepdims=True)
        np.subtract(x, mean, out=out)
        variance = np.square(out).mean(axis=-1, keepdims=True)
        invstd = 1 / np.sqrt(variance + x.dtype.type(problem.attribute("eps")))
        out *= invstd
        out *= arrays["gamma"]
        out += arrays["beta"]
        further = self.outputs(problem)[1:]
        saved = zip(further, (mean, invstd), strict=False)
        return {tensor.name: values.reshape(tensor.shape) for tensor, values in saved}

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """The magnitudes of the terms; the error of a mean scales with its elements."""
        x, eps = arrays["x"], float(problem.attribute("eps"))
        size = np.abs(x).mean(axis=-1, keepdims=True)
        invstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
        centred = np.abs(x - x.mean(axis=-1, keepdims=True)) + size
        scale: Array = centred * invstd * np.abs(arrays["gamma"]) + np.abs(arrays["beta"])
        further = self.outputs(problem)[1:]
        saved = zip(further, (size, invstd * (1 + size * invstd)), strict=False)
        return {"out": scale, **{one.name: values.reshape(one.shape) for one, values in saved}}

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``layer_norm``, or ``aten::native_layer_norm`` if the statistics are saved."""
        row, eps = list(problem.shape[-1:]), float(problem.attribute("eps"))
        if not _is_training(problem):
            normed = torch.nn.functional.layer_norm
            return lambda t: {"out": normed(t["x"], row, t["gamma"], t["beta"], eps)}
        native = torch.ops.aten.native_layer_norm

        def train(t: Mapping[str, Any]) -> dict[str, Any]:
            out, *saved = native(t["x"], row, t["gamma"], t["beta"], eps)
            mean, invstd = (one.view_as(t[name]) for name, one in zip(_SAVED, saved, strict=True))
            return {"out": out, "mean": mean, "invstd": invstd}

        return train

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        x = inputs["x"]
        centred = (x - x.mean(-1, keepdim=True)).abs() + x.abs().mean(-1, keepdim=True)
        deviation = (x.var(-1, correction=0, keepdim=True) + float(problem.attribute("eps"))).sqrt()
        return centred / deviation * inputs["gamma"].abs() + inputs["beta"].abs()

    def tolerance(self, problem: Problem) -> Tolerance:
        """A mean and a variance, then six roundings."""
        return Tolerance(8.0 + 2.0 * problem.shape[-1] ** 0.5)


def _is_training(problem: Problem) -> bool:
    return dict(problem.attributes).get("mode") == "train"


class LayerNormBackward(_SeveralOutputs):
    """Gradients of `LayerNorm` from the saved statistics: of x by rows, of vectors by columns.

    With ``g = dy * gamma`` and ``n = (x - mean) * invstd`` the gradient of x is
    ``invstd * (g - mean(g) - n * mean(g * n))``; those of gamma and beta are the sums of ``dy * n``
    and of dy over all rows.
    """

    name = "layernorm_backward"
    gpu_gradients = "layernorm"
    whole = ("dy", "x")
    vectors = ("gamma",)
    # Positive, as an inverse standard deviation is among the inputs.
    domain = (0.25, 1.75)
    steps = 14

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """``dy x gamma mean invstd``, the last two with one element for each row."""
        saved = (_of_rows(name, problem) for name in _SAVED)
        return *super().inputs(problem), *saved

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The gradients of x, gamma and beta."""
        row = problem.shape[-1:]
        return self.output(problem), *(Tensor(name, row) for name in ("dgamma", "dbeta"))

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """Both sums of a row in one pass, then its elements and the sums of the columns."""
        rows, columns = prod(problem.shape[:-1]), problem.shape[-1]
        dy, x, gamma, mean, invstd = (Load(operand) for operand in range(5))
        scaled, centred = Call("mul", (dy, gamma)), Call("sub", (x, mean))
        total, projection = Accumulator("total"), Accumulator("projection")
        factor = Call("mul", (mean_of_sum(projection, columns), Call("square", (invstd,))))
        straight = Call("sub", (scaled, mean_of_sum(total, columns)))
        across = Call("sub", (straight, Call("mul", (centred, factor))))
        out, dgamma, dbeta = self.outputs(problem)
        of_rows = _SAVED
        program = RowProgram(
            groups=rows,
            segments=1,
            columns=columns,
            inputs=tuple(
                View(tensor, group=1)
                if tensor.name in of_rows
                else View(tensor, group=columns if tensor.name in self.whole else 0, column=1)
                for tensor in self.inputs(problem)
            ),
            output=View(out, group=columns, column=1),
            statistics=(
                Statistic("total", "sum", scaled),
                Statistic("projection", "sum", Call("mul", (scaled, centred))),
            ),
            body=Call("mul", (across, invstd)),
            column_sums=(
                ColumnSum(
                    View(dgamma, column=1), Call("mul", (dy, Call("mul", (centred, invstd))))
                ),
                ColumnSum(View(dbeta, column=1), dy),
            ),
        )
        return {"plain": program}

    def _write(self, problem: Problem, arrays: Arrays, out: Array) -> dict[str, Array]:
        dy, invstd = arrays["dy"], _column(arrays["invstd"], problem)
        above = tuple(range(dy.ndim - 1))
        normal = (arrays["x"] - _column(arrays["mean"], problem)) * invstd
        np.multiply(dy, normal, out=out)
        dgamma = out.sum(axis=above)
        np.multiply(dy, arrays["gamma"], out=out)
        projection = (out * normal).mean(axis=-1, keepdims=True)
        out -= out.mean(axis=-1, keepdims=True)
        normal *= projection
        out -= normal
        out *= invstd
        return {"dgamma": dgamma, "dbeta": dy.sum(axis=above)}

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """The same formulas with magnitudes; only the mean is still subtracted."""
        dy, invstd = np.abs(arrays["dy"]), np.abs(_column(arrays["invstd"], problem))
        above = tuple(range(dy.ndim - 1))
        normal = np.abs(arrays["x"] - _column(arrays["mean"], problem)) * invstd
        scaled = dy * np.abs(arrays["gamma"])
        projection = (scaled * normal).mean(axis=-1, keepdims=True)
        scale: Array = scaled + scaled.mean(axis=-1, keepdims=True) + normal * projection
        scale *= invstd
        return {"out": scale, "dgamma": (dy * normal).sum(axis=above), "dbeta": dy.sum(axis=above)}

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """``aten::native_layer_norm_backward``."""
        row, native = list(problem.shape[-1:]), torch.ops.aten.native_layer_norm_backward
        ones = (*problem.shape[:-1], 1)

        def backward(t: Mapping[str, Any]) -> dict[str, Any]:
            saved = (t[name].reshape(ones) for name in _SAVED)
            # The last but one is beta, of which PyTorch uses only the type.
            args = (t["dy"], t["x"], row, *saved, t["gamma"], t["gamma"], [True, True, True])
            return dict(zip(("out", "dgamma", "dbeta"), native(*args), strict=True))

        return backward

    def tolerance(self, problem: Problem) -> Tolerance:
        """Sums over a row and over all of them, then a few roundings."""
        longest = max(problem.shape[-1], prod(problem.shape[:-1]))
        return Tolerance(8.0 + 2.0 * longest**0.5)


def _column(values: Array, problem: Problem) -> Array:
    """Values of the rows, in a shape that broadcasts with their elements."""
    return values.reshape(*problem.shape[:-1], 1)


LAYERNORMS = (LayerNorm(), LayerNormBackward())
