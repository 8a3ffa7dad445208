"""The libraries of GPUs say what they are for without loading PyTorch, and compute it."""

import subprocess
import sys

import numpy as np
import pytest

from processes import PATIENCE_S
from skipjack.core import Device, Problem
from skipjack.execute import draw_inputs
from skipjack.operations import outputs, parse, references
from skipjack.solvers import GpuVendorSolver, find_solver, refusal, vendors_for

H100 = Device("cuda", "sm_90", 132)
CPU = Device("cpu", "znver4", 1)


def names(key: str, device: Device = H100) -> list[str]:
    return [solver.name for solver in vendors_for(parse(key), device)]


@pytest.mark.parametrize(
    ("key", "library"),
    [
        ("matmul:64x64x64:f16", "cublas"),
        ("matmul:64x64x64/tb=1:f8e4m3", "cublas"),
        ("bmm:2x64x64x64:tf32", "cublas"),
        ("conv2d:n1c8h8w8k8y3x3:bf16:NHWC:wrw", "cudnn"),
        ("softmax:64x64:f16", "aten"),
        ("batchnorm:n2c8h8w8:f32", "aten"),
        ("add:64:bf16", "aten"),
    ],
)
def test_every_problem_has_its_library(key: str, library: str) -> None:
    pytest.importorskip("torch")
    assert names(key) == [library]
    assert library not in names("matmul:64x64x64:f32", CPU)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("matmul:64x64x64:f8e4m3", "need the second operand transposed"),
        ("matmul:64x64x60/tb=1:f8e4m3", "multiples of 16"),
        ("matmul:64x64x64/tb=1/bias=1:f8e4m3", "no epilogue"),
        ("add:64", "it is for matrix products"),
    ],
)
def test_cublas_says_what_it_cannot_do(key: str, reason: str) -> None:
    assert reason in refusal(find_solver("cublas"), parse(key), H100)


def test_asking_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from skipjack.core import Device\n"
        "from skipjack.operations import parse\n"
        "from skipjack.solvers import vendors_for\n"
        "vendors_for(parse('softmax:8x8'), Device('cuda', 'sm_90', 132))\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("library", "key"),
    [
        ("cublas", "matmul:8x9x10"),
        ("cublas", "matmul:8x9x10/ta=1/tb=1/alpha=2/bias=1/act=relu"),
        ("cublas", "bmm:2x8x9x10/beta=0.5"),
        ("cudnn", "conv2d:n2c4h7w6k6y3x3p1q1:f32:NHWC:bwd"),
        ("aten", "layernorm:8x10"),
        ("aten", "layernorm:8x10/mode=train"),
        ("aten", "layernorm_backward:2x4x10"),
        ("aten", "max:8x10/axis=0"),
        ("aten", "gelu_tanh:8x10"),
        ("aten", "batchnorm:n2c3h4w4"),
        ("aten", "batchnorm:n2c3h4w4/momentum=0.2"),
        ("aten", "batchnorm:n2c3h4w4/mode=infer"),
        ("aten", "batchnorm:n2c3h4w4/mode=infer_backward"),
        ("aten", "batchnorm:n2c3h4w4/mode=backward"),
    ],
)
def test_what_is_bound_computes_the_problem(library: str, key: str) -> None:
    # On a CPU's tensors the same calls do the same.
    torch = pytest.importorskip("torch")
    problem: Problem = parse(key)
    arrays = dict(draw_inputs(problem, 2))
    arrays |= {one.name: np.full(one.shape, np.nan, np.float32) for one in outputs(problem)}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    solver = find_solver(library)
    assert isinstance(solver, GpuVendorSolver)
    solver.bind_gpu(problem, tensors)()
    for name, expected in references(problem, arrays).items():
        np.testing.assert_allclose(arrays[name], expected, rtol=2e-4, atol=2e-5)
