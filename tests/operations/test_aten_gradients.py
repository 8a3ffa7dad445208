"""Operations of training steps give what PyTorch's own functions give, called as it calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from skipjack.execute import draw_inputs
from skipjack.operations import parse, references

torch = pytest.importorskip("torch")
ATEN = torch.ops.aten
Tensors = dict[str, Any]


def row_gradient(call: Any) -> Callable[[Tensors], tuple[Any, ...]]:
    return lambda t: (call(t["dy"], t["y"], t["y"].ndim - 1, t["y"].dtype),)


def layernorm(t: Tensors) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ATEN.native_layer_norm(t["x"], [5], t["gamma"], t["beta"], 1e-3)
    return found


def layernorm_backward(t: Tensors) -> tuple[Any, ...]:
    saved = [t[name].unsqueeze(-1) for name in ("mean", "invstd")]
    beta = torch.zeros_like(t["gamma"])
    found: tuple[Any, ...] = ATEN.native_layer_norm_backward(
        t["dy"], t["x"], [5], *saved, t["gamma"], beta, [True, True, True]
    )
    return found


def batchnorm(t: Tensors) -> tuple[Any, ...]:
    """PyTorch writes running statistics where they are; inference saves nothing."""
    training = "running_mean" in t
    names = ("running_mean", "running_var") if training else ("mean", "var")
    running = [t[name].clone() for name in names]
    found = ATEN.native_batch_norm(t["x"], t["gamma"], t["beta"], *running, training, 0.3, 1e-3)
    if training:
        return *found, *running
    assert found[1].numel() == found[2].numel() == 0
    return (found[0],)


def batchnorm_backward(t: Tensors) -> tuple[Any, ...]:
    training = "invstd" in t
    saved = (None, None, t["mean"], t["invstd"]) if training else (t["mean"], t["var"], None, None)
    found: tuple[Any, ...] = ATEN.native_batch_norm_backward(
        t["dy"], t["x"], t["gamma"], *saved, training, 1e-3, [True, True, True]
    )
    return found


def pointwise(call: Any, second: str, **how: Any) -> Callable[[Tensors], tuple[Any, ...]]:
    return lambda t: (call(t["dy"], t[second], **how),)


CALLS: dict[str, Callable[[Tensors], tuple[Any, ...]]] = {
    "softmax_backward:7x33": row_gradient(ATEN._softmax_backward_data),
    "softmax_backward:2x3x5": row_gradient(ATEN._softmax_backward_data),
    "logsoftmax_backward:7x33": row_gradient(ATEN._log_softmax_backward_data),
    "logsoftmax_backward:11": row_gradient(ATEN._log_softmax_backward_data),
    "layernorm:4x3x5/eps=0.001/mode=train": layernorm,
    "layernorm_backward:4x3x5": layernorm_backward,
    "batchnorm:n3c4h5w2/eps=0.001/momentum=0.3": batchnorm,
    "batchnorm:n3c4h5w2/eps=0.001/mode=infer": batchnorm,
    "batchnorm:n3c4h5w2/mode=backward": batchnorm_backward,
    "batchnorm:n3c4h5w2/eps=0.001/mode=infer_backward": batchnorm_backward,
    "relu_backward:7x9": pointwise(ATEN.threshold_backward, "y", threshold=0),
    "sigmoid_backward:7x9": pointwise(ATEN.sigmoid_backward, "y"),
    "tanh_backward:7x9": pointwise(ATEN.tanh_backward, "y"),
    "silu_backward:7x9": pointwise(ATEN.silu_backward, "x"),
    "gelu_backward:7x9": pointwise(ATEN.gelu_backward, "x"),
    "gelu_tanh_backward:7x9": pointwise(ATEN.gelu_backward, "x", approximate="tanh"),
}


@pytest.mark.parametrize("key", CALLS)
def test_every_output_is_what_aten_gives(key: str) -> None:
    problem = parse(f"{key}:f64")
    inputs = draw_inputs(problem, 4)
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    given = CALLS[key](tensors)
    for (name, expected), result in zip(references(problem, inputs).items(), given, strict=True):
        shaped = result.numpy().reshape(expected.shape)
        np.testing.assert_allclose(shaped, expected, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
def test_what_autograd_computes_is_the_gradient_from_the_result(name: str) -> None:
    x = torch.linspace(-3, 3, 4 * 9, dtype=torch.float64).reshape(4, 9).sin().requires_grad_()
    dy = torch.linspace(1, 2, 4 * 9, dtype=torch.float64).reshape(4, 9)
    y = torch.softmax(x, -1) if name == "softmax" else torch.log_softmax(x, -1)
    y.backward(dy)
    given = {"dy": dy.numpy(), "y": y.detach().numpy()}
    (result,) = references(parse(f"{name}_backward:4x9:f64"), given).values()
    np.testing.assert_allclose(result, x.grad.numpy(), rtol=1e-12, atol=1e-12)
