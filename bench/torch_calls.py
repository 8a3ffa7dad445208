"""What a user of PyTorch would call instead, writing into the same output wherever PyTorch can."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from skipjack.core import Arrays, Problem
from skipjack.solvers import ResultCall

TorchCall = Callable[[], object]
"""A call to time; a `ResultCall` where PyTorch allocates its result."""

CALLS = {
    "matmul": "torch.mm(a, b, out=out)",
    "add": "torch.add(x, y, out=out)",
    "mul": "torch.mul(x, y, out=out)",
    "relu": "torch.clamp_min(x, 0, out=out)",
    "sqrt": "torch.sqrt(x, out=out)",
    "reciprocal": "torch.reciprocal(x, out=out)",
    "exp": "torch.exp(x, out=out)",
    "tanh": "torch.tanh(x, out=out)",
    "sigmoid": "torch.sigmoid(x, out=out)",
    "gelu": "torch._C._nn.gelu(x, out=out)",
    "bias": "torch.add(x, v, out=out)",
    "softmax": "torch._softmax(x, -1, False, out=out)",
    "layernorm": "torch.native_layer_norm(x, [columns], gamma, beta, eps), allocates",
    "batchnorm train": "torch.native_batch_norm(x, ..., training=True), allocates",
    "batchnorm infer": "torch.native_batch_norm(x, ..., training=False), allocates",
    "batchnorm backward": "aten.native_batch_norm_backward(dy, x, ...), allocates",
    "sum": "torch.sum(x, dim=axes, out=out)",
    "max": "torch.amax(x, dim=axes, out=out)",
}
"""By operation, and by mode for batchnorm.

The out= forms of the last normalizations either compute elsewhere and copy, or are only reached
through torch.ops, which adds two microseconds: slower than allocating, since memory is used again.
"""


def bind(problem: Problem, arrays: Arrays, threads: int) -> TorchCall | str:
    """The call on these arrays, or why there is none."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    kind = kind_of(problem)
    if kind not in CALLS:
        return f"no call of torch is known for {kind}"
    torch = _torch(threads)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return _BINDERS.get(kind, _plain)(torch, problem, tensors)


def kind_of(problem: Problem) -> str:
    """The operation, with batchnorm's mode."""
    if problem.operation == "batchnorm":
        return f"batchnorm {problem.attribute('mode')}"
    return problem.operation


@functools.cache
def _torch(threads: int) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return torch


Tensors = Mapping[str, Any]


def _plain(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    """Functions of one or two arrays with an out= of their own."""
    function = getattr(
        torch, {"matmul": "mm", "bias": "add"}.get(problem.operation, problem.operation)
    )
    inputs = [tensor for name, tensor in t.items() if name != "out"]
    return partial(function, *inputs, out=t["out"])


def _relu(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    return partial(torch.clamp_min, t["x"], 0.0, out=t["out"])


def _gelu(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    return partial(torch._C._nn.gelu, t["x"], out=t["out"])


def _softmax(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    return partial(torch._softmax, t["x"], -1, False, out=t["out"])


def _layernorm(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    eps, rows = float(problem.attribute("eps")), list(problem.shape[-1:])
    call = partial(torch.native_layer_norm, t["x"], rows, t["gamma"], t["beta"], eps)
    return _giving(call, t["out"])


def _forward(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    training = problem.attribute("mode") == "train"
    given = (None, None) if training else (t["mean"], t["var"])
    eps = float(problem.attribute("eps"))
    inputs = (t["x"], t["gamma"], t["beta"], *given, training, 0.1, eps)
    return _giving(partial(torch.native_batch_norm, *inputs), t["out"])


def _backward(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    inputs = (t["dy"], t["x"], t["gamma"], None, None, t["mean"], t["invstd"])
    function = torch.ops.aten.native_batch_norm_backward
    return _giving(partial(function, *inputs, True, 1e-5, [True, True, True]), t["out"])


def _reduce(torch: Any, problem: Problem, t: Tensors) -> TorchCall:
    axes = tuple(int(part) for part in problem.attribute("axis").split(","))
    out = t["out"] if len(axes) < len(problem.shape) else t["out"].reshape(())
    function = torch.amax if problem.operation == "max" else torch.sum
    return partial(function, t["x"], dim=axes, out=out)


def _giving(call: Callable[[], Any], out: Any) -> TorchCall:
    """A call whose result is the first of a tuple."""
    return ResultCall(call, lambda found: out.copy_(found[0]))


_BINDERS: dict[str, Callable[[Any, Problem, Tensors], TorchCall]] = {
    "relu": _relu,
    "gelu": _gelu,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "batchnorm train": _forward,
    "batchnorm infer": _forward,
    "batchnorm backward": _backward,
    "sum": _reduce,
    "max": _reduce,
}
