"""Operations as one writes them in PyTorch, in eager mode, on tensors by name.

They are what a user would call otherwise, and in float64 they are a reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skipjack.core.nest import SLOPES
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.batchnorm import BatchNorm
from skipjack.operations.elementwise import Elementwise
from skipjack.operations.matmul import Matmul, Settings
from skipjack.operations.reduce import Reduce

Tensors = Mapping[str, Any]
Function = Callable[[Tensors], dict[str, Any]]
"""Computes the outputs by name."""

_DIRECT = ("add", "sub", "mul", "div", "maximum", "minimum")
_SAME_NAME = (
    *("neg", "abs", "square", "sqrt", "reciprocal", "relu", "exp", "log", "tanh", "erf"),
    *("rsqrt", "sigmoid"),
)


def scalar_function(torch: Any, name: str) -> Callable[..., Any]:
    """The elementwise function that PyTorch has for ours."""
    functional = torch.nn.functional
    aten = torch.ops.aten
    others = {
        "relu_backward": lambda dy, y: aten.threshold_backward(dy, y, 0),
        "sigmoid_backward": aten.sigmoid_backward,
        "tanh_backward": aten.tanh_backward,
        "silu_backward": aten.silu_backward,
        "gelu_backward": aten.gelu_backward,
        "gelu_tanh_backward": lambda dy, x: aten.gelu_backward(dy, x, approximate="tanh"),
        "bias": torch.add,
        "scale": torch.mul,
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    }
    known: dict[str, Callable[..., Any]] = {
        **{ours: getattr(torch, ours) for ours in (*_DIRECT, *_SAME_NAME)},
        **others,
    }
    return known[name]


def reduction_function(torch: Any, name: str) -> Callable[[Any, list[int]], Any]:
    """The reduction over some axes."""
    return {
        "sum": lambda x, axes: x.sum(axes),
        "mean": lambda x, axes: x.mean(axes),
        "prod": _product,
        "max": lambda x, axes: x.amax(axes),
        "min": lambda x, axes: x.amin(axes),
        "absmax": lambda x, axes: torch.linalg.vector_norm(x, float("inf"), axes),
        "sumsq": lambda x, axes: x.square().sum(axes),
        "norm": lambda x, axes: torch.linalg.vector_norm(x, 2, axes),
    }[name]


def _product(x: Any, axes: list[int]) -> Any:
    """PyTorch multiplies over one axis, or over all."""
    if len(axes) == x.ndim:
        return x.prod()
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis)
    return x


def product_function(torch: Any, problem: Problem) -> Callable[[Tensors], Any]:
    """A matrix product with its epilogue; addmm and the like take what they can."""
    settings = Settings.of(problem)
    batched = len(problem.shape) == 4

    def compute(tensors: Tensors) -> Any:
        a = tensors["a"].mT if settings.ta else tensors["a"]
        b = tensors["b"].mT if settings.tb else tensors["b"]
        if settings.beta:
            add = torch.baddbmm if batched else torch.addmm
            out = add(tensors["c"], a, b, beta=settings.beta, alpha=settings.alpha)
            out = out + tensors["bias"] if settings.bias else out
        elif settings.bias and not batched:
            out = torch.addmm(tensors["bias"], a, b, alpha=settings.alpha)
        else:
            out = torch.matmul(a, b)
            out = out * settings.alpha if settings.alpha != 1.0 else out
            out = out + tensors["bias"] if settings.bias else out
        return out if settings.act == "none" else scalar_function(torch, settings.act)(out)

    return compute


def row_function(torch: Any, problem: Problem) -> Callable[[Tensors], Any] | None:
    """Normalisations of the last axis, and their gradients."""
    functional, row, aten = torch.nn.functional, list(problem.shape[-1:]), torch.ops.aten
    eps = float(dict(problem.attributes).get("eps", 0.0))
    known: dict[str, Callable[[Tensors], Any]] = {
        "softmax": lambda t: torch.softmax(t["x"], -1),
        "logsoftmax": lambda t: torch.log_softmax(t["x"], -1),
        "layernorm": lambda t: functional.layer_norm(t["x"], row, t["gamma"], t["beta"], eps),
        "rmsnorm": lambda t: functional.rms_norm(t["x"], row, t["gamma"], eps),
        "softmax_backward": lambda t: aten._softmax_backward_data(
            t["dy"], t["y"], -1, t["dy"].dtype
        ),
        "logsoftmax_backward": lambda t: aten._log_softmax_backward_data(
            t["dy"], t["y"], -1, t["dy"].dtype
        ),
    }
    return known.get(problem.operation)


def batchnorm_function(torch: Any, problem: Problem) -> Function:
    """Batch normalisation with what it saves, or its gradients."""
    mode, aten = problem.attribute("mode"), torch.ops.aten
    attributes = dict(problem.attributes)
    eps, momentum = (float(attributes.get(name, 1e-5)) for name in ("eps", "momentum"))

    def compute(t: Tensors) -> dict[str, Any]:
        if mode == "infer":
            args = (t["x"], t["mean"], t["var"], t["gamma"], t["beta"])
            return {"out": torch.nn.functional.batch_norm(*args, training=False, eps=eps)}
        if mode == "train":
            # They are changed in place: the problem's own stay as they are.
            running = {name: t[name].clone() for name in _RUNNING if name in t}
            before = (running.get(name) for name in _RUNNING)
            args = (t["x"], t["gamma"], t["beta"], *before, True, momentum, eps)
            found = torch.native_batch_norm(*args)
            names = ("out", "mean", "invstd", *(("next_mean", "next_var") if running else ()))
            return dict(zip(names, (*found, *running.values()), strict=True))
        if mode == "infer_backward":
            given = (t["mean"], t["var"], None, None, False)
        else:
            given = (None, None, t["mean"], t["invstd"], True)
        rest = (*given, eps, [True, True, True])
        found = aten.native_batch_norm_backward(t["dy"], t["x"], t["gamma"], *rest)
        return dict(zip(("out", "dgamma", "dbeta"), found, strict=True))

    return compute


def layernorm_function(torch: Any, problem: Problem) -> Function | None:
    """Layer norm with what its training saves, or its gradients; None for other operations."""
    row, aten = list(problem.shape[-1:]), torch.ops.aten
    attributes = dict(problem.attributes)

    def train(t: Tensors) -> dict[str, Any]:
        args = (t["x"], row, t["gamma"], t["beta"], float(attributes["eps"]))
        out, mean, invstd = aten.native_layer_norm(*args)
        return {"out": out, "mean": mean.view_as(t["mean"]), "invstd": invstd.view_as(t["invstd"])}

    def backward(t: Tensors) -> dict[str, Any]:
        saved = (t[name].reshape(*problem.shape[:-1], 1) for name in ("mean", "invstd"))
        # The last but one is beta, of which only the type is looked at.
        args = (t["dy"], t["x"], row, *saved, t["gamma"], t["gamma"], [True, True, True])
        found = aten.native_layer_norm_backward(*args)
        return dict(zip(("out", "dgamma", "dbeta"), found, strict=True))

    if problem.operation == "layernorm_backward":
        return backward
    return train if attributes.get("mode") == "train" else None


def vector_function(torch: Any, problem: Problem) -> Function | None:
    """Everything that is no product; None for what PyTorch has no word for."""
    operation = get(problem.operation)
    if isinstance(operation, BatchNorm):
        return batchnorm_function(torch, problem)
    if operation.name.startswith("layernorm") and (found := layernorm_function(torch, problem)):
        return found
    inputs = [tensor.name for tensor in operation.inputs(problem)]
    shape = operation.output(problem).shape
    if isinstance(operation, Elementwise):
        pointwise = scalar_function(torch, operation.name)
        return lambda t: {"out": pointwise(*(t[name] for name in inputs))}
    if isinstance(operation, Reduce):
        reduce, axes = reduction_function(torch, operation.name), list(operation.axes(problem))
        return lambda t: {"out": reduce(t["x"], axes).reshape(shape)}
    rows = row_function(torch, problem)
    return (lambda t: {"out": rows(t)}) if rows else None


def has_function(problem: Problem) -> bool:
    """Whether `vector_function` gives one, without loading PyTorch."""
    operation = get(problem.operation)
    if isinstance(operation, Elementwise):
        return operation.name in (*_DIRECT, *_SAME_NAME, *_OTHER_NAMES)
    known = (BatchNorm, Reduce)
    return isinstance(operation, known) or operation.name in _ROWS


def is_product(problem: Problem) -> bool:
    """Whether `product_function` is for it."""
    return isinstance(get(problem.operation), Matmul)


_RUNNING = ("running_mean", "running_var")
_OTHER_NAMES = ("bias", "scale", "silu", "gelu", "gelu_tanh", *SLOPES)
_ROWS = (
    *("softmax", "logsoftmax", "layernorm", "rmsnorm"),
    *("softmax_backward", "logsoftmax_backward", "layernorm_backward"),
)
