"""References of PyTorch in float64 agree with those of the operations."""

import numpy as np
import pytest

from skipjack.execute import draw_inputs
from skipjack.execute.gpu.torch_bridge import exact_output
from skipjack.operations import ELEMENTWISE, get, parse
from skipjack.operations.activation_gradients import ACTIVATION_GRADIENTS
from skipjack.operations.reduce import REDUCTIONS

torch = pytest.importorskip("torch")

KEYS = [
    *(f"{operation.name}:6x10" for operation in (*ELEMENTWISE, *ACTIVATION_GRADIENTS)),
    "add:6x10/y=10",
    *(f"{operation.name}:5x6x7/axis={axis}" for operation in REDUCTIONS for axis in ("1", "0,2")),
    "sum:5x6/axis=all",
    "prod:5x6/axis=all",
    *(f"{name}:6x10" for name in ("softmax", "logsoftmax", "layernorm", "rmsnorm")),
    *("softmax_backward:6x10", "logsoftmax_backward:6x10"),
    "matmul:4x5x6",
    "matmul:4x5x6/ta=1/tb=1/alpha=0.5/beta=2/bias=1/act=gelu_tanh",
    "matmul:4x5x6/alpha=0.5/bias=1/act=relu",
    "bmm:3x4x5x6/tb=1/alpha=-2/bias=1/act=tanh",
    "bmm:3x4x5x6/beta=-1",
    *(
        f"conv2d:n2c4h7w6k6y3x3p1q1u2{groups}:f32:{layout}:{direction}"
        for groups in ("", "g2")
        for layout in ("NCHW", "NHWC")
        for direction in ("fwd", "bwd", "wrw")
    ),
    "conv_transpose2d:n1c2h5w5k4y3x3u2v2",
    "conv3d:n1c2d4h5w5k3z3y3x3o1p1q1",
]


@pytest.mark.parametrize("key", KEYS)
def test_the_reference_and_its_magnitude(key: str) -> None:
    problem = parse(key)
    operation = get(problem.operation)
    inputs = {name: x.astype(np.float64) for name, x in draw_inputs(problem, 3).items()}
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    exact = exact_output(torch, problem, tensors)
    assert exact is not None
    expected = operation.reference(problem, inputs)
    np.testing.assert_allclose(exact.reference.numpy(), expected, rtol=1e-12, atol=1e-12)
    expected = operation.magnitude(problem, inputs)
    np.testing.assert_allclose(exact.magnitude.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_what_has_several_outputs_is_left_to_the_host() -> None:
    assert exact_output(torch, parse("batchnorm:n2c3h4w4"), {}) is None
