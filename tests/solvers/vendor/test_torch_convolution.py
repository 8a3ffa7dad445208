"""PyTorch's convolutions compute our problems, in every direction and layout."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from processes import PATIENCE_S
from skipjack.core import Device
from skipjack.execute import Checker
from skipjack.execute.cpu.kernels import PythonKernel
from skipjack.native import detect
from skipjack.operations import get, parse
from skipjack.solvers import ResultCall, vendors_for
from skipjack.solvers.vendor.cpu import TorchConvolutionSolver

SOLVER = TorchConvolutionSolver()
INSTALLED = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not INSTALLED, reason="torch is not installed")
SHAPES = [
    "conv2d:n2c6h9w11k8y3x2p1q0u2v3l2j1g2",
    "conv2d:n1c6h8w9k6y3x3p1q1g6",
    "conv2d:n2c5h6w7k4y1x1",
    "conv3d:n2c4d5h6w7k6z2y3x3o1p1q1t2u1v2",
    "conv_transpose2d:n2c6h5w6k8y4x3p1q1u2v2g2a1",
    "conv_transpose3d:n1c4d3h4w5k6z2y3x3o1p1q1t2u2v2e1a1b1",
]


@needs_torch
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", [0, 1], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_leaves_the_right_result_in_the_output(
    shape: str, layout: int, direction: str, dtype: str
) -> None:
    layouts = get(shape.split(":")[0]).layouts  # type: ignore[attr-defined]
    problem = parse(shape, dtype, layout=layouts[layout], direction=direction)
    checker = Checker(problem)
    call = SOLVER.bind(problem, checker.arrays)
    for _ in range(2):
        checker.prepare()
        call()
        verdict = checker.verdict()
        assert verdict.right, verdict.reason


@needs_torch
def test_a_bound_call_reads_its_inputs_anew() -> None:
    problem = parse("conv2d:n1c2h3w3k2y1x1:f32:NHWC")
    arrays = {
        tensor.name: np.ones(tensor.shape, np.float32)
        for tensor in (*get("conv2d").inputs(problem), get("conv2d").output(problem))
    }
    call = SOLVER.bind(problem, arrays)
    arrays["x"][...] = 3.0
    call()
    assert (arrays["out"] == 6.0).all()


def test_what_cannot_write_into_an_output_is_timed_without_the_copy() -> None:
    calls: list[str] = []

    def compute() -> str:
        calls.append("compute")
        return "result"

    kernel = PythonKernel(ResultCall(compute, calls.append))
    kernel.sample(calls=2, samples=1)
    assert calls == ["compute", "compute"]
    kernel.call()
    assert calls == ["compute", "compute", "compute", "result"]


@needs_torch
def test_asking_whether_it_applies_does_not_load_pytorch() -> None:
    code = (
        "import sys\n"
        "from skipjack.native import cpu\n"
        "from skipjack.operations import parse\n"
        "from skipjack.solvers import vendors_for\n"
        "found = vendors_for(parse('conv2d:n1c4h4w4k4y1x1'), cpu.detect())\n"
        "assert [solver.name for solver in found] == ['onednn'], found\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


def test_it_takes_convolutions_on_cpus_where_pytorch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    conv = parse("conv2d:n1c4h4w4k4y1x1")
    assert SOLVER.refuses(parse("matmul:4x4x4"), detect()) == "it is for convolutions"
    assert SOLVER.refuses(conv, Device("gpu", "sm_90", 132)) == "it is for CPUs"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert SOLVER.refuses(conv, detect()) == "torch is not installed"
    assert SOLVER.name not in [solver.name for solver in vendors_for(conv, detect())]
