"""Vector operations on GPUs: who does what, what plans do, and that kernels are right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack import operations
from skipjack.core import Device, ParameterSpace
from skipjack.gpu import Launch, scratch_sizes, unpack
from skipjack.operations import ELEMENTWISE, BatchNorm
from skipjack.operations.activation_gradients import ACTIVATION_GRADIENTS
from skipjack.operations.layernorm import LAYERNORMS
from skipjack.operations.normalization import NORMALIZATIONS, ROW_GRADIENTS
from skipjack.operations.reduce import REDUCTIONS
from skipjack.solvers import solver_for
from skipjack.solvers.gpu.triton import TritonSolver
from skipjack.solvers.gpu.vector.batchnorm import TritonBatchNorm
from skipjack.solvers.gpu.vector.elementwise import TritonElementwise
from skipjack.solvers.gpu.vector.normalization import TritonLayerNormBackward, TritonRows
from skipjack.solvers.gpu.vector.reduce import TritonReduce, reduced_axes

CASES = Path(__file__).with_name("vector_problems.py")
HOPPER = Device("cuda", "sm_90", 132, caches=(("shared", 227 << 10), ("L2", 50 << 20)))
CDNA = Device("hip", "gfx942", 304, caches=(("shared", 64 << 10), ("L2", 4 << 20)))
VECTOR = (
    *ELEMENTWISE,
    *ACTIVATION_GRADIENTS,
    *REDUCTIONS,
    *NORMALIZATIONS,
    *LAYERNORMS,
    *ROW_GRADIENTS,
    BatchNorm(),
)


def default_plan(solver: TritonSolver, key: str, device: Device = HOPPER) -> list[Launch]:
    problem = operations.parse(key)
    config = solver.space(problem, device).default()
    steps = solver.plan(problem, device, config)
    return [step for step in steps if isinstance(step, Launch)]


def test_the_interpreter_computes_what_every_plan_says() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-W", "ignore", str(CASES)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == ["127 cases"]


@pytest.mark.parametrize("operation", VECTOR, ids=lambda operation: operation.name)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_every_vector_operation_has_a_solver_on_both_vendors_gpus(
    operation: BatchNorm, dtype: str
) -> None:
    problem = operations.parse(f"{operation.example}:{dtype}")
    for device in (HOPPER, CDNA):
        assert solver_for(problem, device).name.startswith("triton_")


@pytest.mark.parametrize(
    ("solver", "key"),
    [
        (TritonElementwise(), "gelu:8192x8192:f16"),
        (TritonElementwise(), "bias:8192x8192:f16"),
        (TritonReduce(), "sum:8192x8192/axis=1"),
        (TritonReduce(), "sum:8192x8192/axis=0:f16"),
        (TritonReduce(), "sum:100000000"),
        (TritonRows(), "softmax:8192x8192:f16"),
        (TritonRows(), "layernorm:1024x65536"),
        (TritonLayerNormBackward(), "layernorm_backward:8192x1024:f16"),
        (TritonBatchNorm(), "batchnorm:n64c256h64w64:f16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_space_is_listed_whole_and_starts_with_its_default(
    solver: TritonSolver, key: str
) -> None:
    space = solver.space(operations.parse(key), HOPPER)
    assert isinstance(space, ParameterSpace)
    assert space.count() <= 5000
    first = space.promising(10)
    assert first[0] == space.default()
    assert len(set(first)) == 10


def test_a_full_reduction_is_cut_for_all_units_and_joined() -> None:
    parts, whole = default_plan(TritonReduce(), "sum:100000000")
    assert parts.grid[0] >= 2 * HOPPER.units
    assert whole.grid == (1, 1, 1)


def test_few_columns_are_cut_into_parts() -> None:
    steps = default_plan(TritonReduce(), "sum:100000x64/axis=0:f16")
    assert len(steps) == 2
    assert steps[0].grid[0] >= HOPPER.units
    assert set(scratch_sizes(steps)) == {"part0"}


def test_reduced_axes_go_one_after_the_other_from_the_inside() -> None:
    reduce = next(one for one in REDUCTIONS if one.name == "sum")
    axes = reduced_axes(reduce.nest(operations.parse("sum:2x3x4x5/axis=0,2")))
    assert [(axis.outer, axis.length, axis.inner) for axis in axes] == [(6, 4, 5), (1, 2, 15)]


def test_inference_needs_no_sums() -> None:
    train = default_plan(TritonBatchNorm(), "batchnorm:n8c64h56w56")
    infer = default_plan(TritonBatchNorm(), "batchnorm:n8c64h56w56/mode=infer")
    assert [step.kernel for step in train] == ["partial", "apply"]
    assert [step.kernel for step in infer] == ["apply"]


def test_operands_that_take_very_many_turns_are_cut_into_launches() -> None:
    key = "add:2x1x3x1x2x1x3/y=2x1x2x1x3x1"
    assert len(default_plan(TritonElementwise(), key)) == 2
    long = "add:100x1x100x1x2x1x2x1x2/y=100x1x2x1x2x1x2x1"
    assert "alternating axes" in TritonElementwise().refuses(operations.parse(long), HOPPER)


def test_sizes_that_take_64_bits_are_passed_so() -> None:
    (step,) = default_plan(TritonElementwise(), "relu:3000000000:f16")
    assert step.values[-1].type == "i64"  # type: ignore[union-attr]


def test_other_shapes_share_a_build() -> None:
    solver = TritonElementwise()
    problems = [operations.parse(f"gelu:{size}:f16") for size in (1 << 20, 1 << 22)]
    config = solver.space(problems[0], HOPPER).default()
    assert len({solver.lower(problem, HOPPER, config).digest for problem in problems}) == 1


@pytest.mark.parametrize(
    ("solver", "device", "key"),
    [
        (TritonRows(), HOPPER, "layernorm:64x3000:bf16"),
        (TritonRows(), HOPPER, "layernorm:64x768/mode=train:f16"),
        (TritonLayerNormBackward(), HOPPER, "layernorm_backward:4096x768:bf16"),
        (TritonLayerNormBackward(), CDNA, "layernorm_backward:4096x4096"),
        (TritonRows(), CDNA, "softmax:64x100000:f16"),
        (TritonRows(), HOPPER, "softmax_backward:64x3000:bf16"),
        (TritonReduce(), CDNA, "prod:64x8x80/axis=0,2:f64"),
        (TritonBatchNorm(), HOPPER, "batchnorm:n8c64h7w7/mode=backward:f16"),
        (TritonElementwise(), CDNA, "sub:64x3x5x1/y=1x7:f16"),
        (TritonElementwise(), HOPPER, "tanh:100:f64"),
        (TritonElementwise(), HOPPER, "gelu_backward:4096:f16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_defaults_compile_without_spills(solver: TritonSolver, device: Device, key: str) -> None:
    pytest.importorskip("triton")
    problem = operations.parse(key)
    config = solver.space(problem, device).default()
    artifact = unpack(solver.compile(solver.lower(problem, device, config)).data)
    launched = {step.kernel for step in default_plan(solver, key, device)}
    assert {kernel.name for kernel in artifact.kernels} == launched
    assert all(kernel.spill_bytes == 0 for kernel in artifact.kernels)
