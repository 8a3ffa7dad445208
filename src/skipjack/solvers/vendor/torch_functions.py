"""Operations as users write them in PyTorch's eager mode, on tensors by name.

They are compared with tuned kernels, and serve as references in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skipjack.core import SLOPES, Problem, TorchComputed, TorchFunction
from skipjack.operations import Elementwise, Matmul, MatmulAttributes, Reduce, get

Tensors = Mapping[str, Any]

_DIRECT = ("add", "sub", "mul", "div", "maximum", "minimum")
_SAME_NAME = (
    *("neg", "abs", "square", "sqrt", "reciprocal", "relu", "exp", "log", "tanh", "erf"),
    *("rsqrt", "sigmoid"),
)


def scalar_function(torch: Any, name: str) -> Callable[..., Any]:
    """PyTorch's function for one of our elementwise functions."""
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
    """PyTorch's function for a reduction over several axes."""
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
    """The product over axes; PyTorch's `prod` takes one axis, or none for all."""
    if len(axes) == x.ndim:
        return x.prod()
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis)
    return x


def product_function(torch: Any, problem: Problem) -> Callable[[Tensors], Any]:
    """A matrix product with its epilogue, as far as possible by addmm and its relatives."""
    settings = MatmulAttributes.of(problem)
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


def vector_function(torch: Any, problem: Problem) -> TorchFunction | None:
    """The function of any other operation; None if PyTorch has no function for it."""
    operation = get(problem.operation)
    if isinstance(operation, TorchComputed):
        return operation.torch_function(torch, problem)
    if not has_function(problem):
        return None
    if isinstance(operation, Reduce):
        reduce, axes = reduction_function(torch, operation.name), list(operation.axes(problem))
        shape = operation.output(problem).shape
        return lambda t: {"out": reduce(t["x"], axes).reshape(shape)}
    inputs = [tensor.name for tensor in operation.inputs(problem)]
    pointwise = scalar_function(torch, operation.name)
    return lambda t: {"out": pointwise(*(t[name] for name in inputs))}


def has_function(problem: Problem) -> bool:
    """Whether `vector_function` returns a function, without loading PyTorch."""
    operation = get(problem.operation)
    if isinstance(operation, Elementwise):
        known = operation.name in (*_DIRECT, *_SAME_NAME, *_OTHER_NAMES)
        return known or isinstance(operation, TorchComputed)
    if isinstance(operation, Reduce):
        return operation.name in _REDUCTIONS or isinstance(operation, TorchComputed)
    return isinstance(operation, TorchComputed)


def is_product(problem: Problem) -> bool:
    """Whether `product_function` supports a problem."""
    return isinstance(get(problem.operation), Matmul)


_OTHER_NAMES = ("bias", "scale", "silu", "gelu", "gelu_tanh", *SLOPES)
_REDUCTIONS = ("sum", "mean", "prod", "max", "min", "absmax", "sumsq", "norm")
