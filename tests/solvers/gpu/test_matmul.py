"""Matrix products on GPUs: what plans do, which configs are legal, and that kernels are right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack import operations
from skipjack.core import Config, Device, ParameterSpace, Problem
from skipjack.gpu import KNOWN, Descriptor, Launch, from_slots, scratch_sizes, to_slots, unpack
from skipjack.solvers import solvers_for
from skipjack.solvers.gpu.gemm import AddressMatmul, DescriptorMatmul
from skipjack.solvers.gpu.gemm.pointers import ThinMatmul
from skipjack.solvers.gpu.gemm.product import MatrixProduct
from skipjack.solvers.gpu.gemm.spaces import TiledConfig, shared_bytes
from skipjack.solvers.gpu.triton import TritonSolver

CASES = Path(__file__).with_name("product_cases.py")
HOPPER = Device("cuda", "sm_90", 132, caches=(("shared", 227 << 10), ("L2", 50 << 20)))
AMPERE = Device("cuda", "sm_80", 108, caches=(("shared", 163 << 10), ("L2", 40 << 20)))
CDNA = Device("hip", "gfx942", 304, caches=(("shared", 64 << 10), ("L2", 4 << 20)))
BLOCKS, ADDRESSES, THIN = DescriptorMatmul(), AddressMatmul(), ThinMatmul()


def f16(shape: str) -> Problem:
    return operations.parse(f"{'bmm' if shape.count('x') == 3 else 'matmul'}:{shape}:f16")


def first(
    solver: TritonSolver, problem: Problem, device: Device = HOPPER, **changed: int
) -> Config:
    return solver.space(problem, device).default().replace(**changed)


def names(steps: object) -> list[str]:
    return [step.kernel for step in steps if isinstance(step, Launch)]  # type: ignore[attr-defined]


def test_the_interpreter_computes_what_every_plan_says() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(CASES)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == ["22 cases"]


@pytest.mark.parametrize(
    ("solver", "device", "key"),
    [
        (BLOCKS, HOPPER, "matmul:4096x4096x4096:bf16"),
        (BLOCKS, HOPPER, "bmm:8x1023x1023x1023/tb=1:f8e4m3"),
        (ADDRESSES, AMPERE, "matmul:512x512x512/bias=1/act=gelu:tf32"),
        (ADDRESSES, CDNA, "matmul:4096x4096x4096:f16"),
        (ADDRESSES, AMPERE, "bmm:100000x1x64x64:f16"),
        (THIN, CDNA, "matmul:1x4096x4096:bf16"),
    ],
)
def test_the_first_config_is_built_for_gpus_that_are_not_here(
    solver: TritonSolver, device: Device, key: str
) -> None:
    pytest.importorskip("triton")
    problem = operations.parse(key)
    assert not solver.refuses(problem, device)
    config = solver.space(problem, device).default()
    artifact = unpack(solver.compile(solver.lower(problem, device, config)).data)
    assert artifact.target == device.arch
    launched = names(solver.plan(problem, device, config))
    assert launched == [kernel.name for kernel in artifact.kernels]
    assert all(
        kernel.shared_bytes <= KNOWN[device.arch].shared_bytes for kernel in artifact.kernels
    )
    assert not any(kernel.spill_bytes for kernel in artifact.kernels)


@pytest.mark.parametrize("shape", ["4096x4096x4096", "16x4096x4096", "1023x1023x1023", "1x1x1"])
def test_configs_keep_to_the_gpus_shared_memory(shape: str) -> None:
    product = MatrixProduct.of(f16(shape))
    for config in BLOCKS.space(f16(shape), HOPPER).promising(200):  # type: ignore[attr-defined]
        assert shared_bytes(TiledConfig.of(config), product, KNOWN["sm_90"]) <= 227 << 10


def test_the_first_configs_are_many_kinds_of_legal_ones() -> None:
    space = BLOCKS.space(f16("2048x2048x2048"), HOPPER)
    assert isinstance(space, ParameterSpace)
    ten = space.promising(10)
    assert len({config.key for config in ten}) == 10
    assert all(space.contains(config) for config in ten)
    assert space.default() == ten[0]


def test_only_operands_with_odd_rows_are_copied_into_wider_ones() -> None:
    even, odd = f16("1000x1000x1000"), f16("1000x1000x1023")
    assert "widen" not in names(BLOCKS.plan(even, HOPPER, first(BLOCKS, even)))
    steps = BLOCKS.plan(odd, HOPPER, first(BLOCKS, odd, splits=1))
    assert names(steps) == ["widen", "product"]
    assert scratch_sizes(steps) == {"wide_a": 1000 * 1024 * 2}


def test_rows_that_begin_within_cache_lines_may_be_widened_too() -> None:
    problem = f16("1000x1000x1024")
    config = first(BLOCKS, problem).replace(walk="once", splits=1, pieces=1, early=False)
    plans = [BLOCKS.plan(problem, HOPPER, config.replace(widen=widen)) for widen in (False, True)]
    assert [scratch_sizes(plan) for plan in plans] == [{}, {"wide_b": 1024 * 1024 * 2}]


def test_tiles_of_a_last_round_are_cut_into_shares() -> None:
    problem = f16("2048x11008x4096")
    tile = {"tile_m": 128, "tile_n": 256, "walk": "nested", "splits": 4}
    steps = BLOCKS.plan(problem, HOPPER, first(BLOCKS, problem).replace(**tile))
    assert names(steps) == ["product", "join"]
    left = 16 * 43 - 5 * 132
    assert scratch_sizes(steps) == {"parts": left * 4 * 128 * 256 * 4}


def test_shares_of_a_sum_are_joined() -> None:
    problem = f16("64x4096x4096")
    config = first(BLOCKS, problem, splits=4).replace(walk="once", early=True)
    steps = BLOCKS.plan(problem, HOPPER, config)
    assert names(steps) == ["product", "join"]
    assert scratch_sizes(steps) == {"parts": 4 * 4 * 64 * 4096}


def test_persistent_programs_are_no_more_than_units() -> None:
    problem = f16("8192x8192x8192")
    config = first(BLOCKS, problem).replace(walk="flat", splits=1)
    (step,) = BLOCKS.plan(problem, HOPPER, config)
    assert isinstance(step, Launch)
    assert step.grid == (132, 1, 1)


def test_a_batch_gives_descriptors_of_rank_three() -> None:
    problem = f16("5x64x128x256")
    step = BLOCKS.plan(problem, HOPPER, first(BLOCKS, problem, splits=1))[-1]
    assert isinstance(step, Launch)
    shapes = [value.shape for value in step.values if isinstance(value, Descriptor)]
    assert shapes[:2] == [(5, 64, 256), (5, 256, 128)]


@pytest.mark.parametrize("solver", [BLOCKS, ADDRESSES, THIN])
def test_matrices_of_a_batch_lie_along_the_axis_that_can_be_long(solver: TritonSolver) -> None:
    problem = f16("100000x1x64x512")
    for splits in (1, 2):
        config = first(solver, problem, splits=splits).replace(walk="once", early=False)
        for step in solver.plan(problem, HOPPER, config):
            assert isinstance(step, Launch)
            assert step.grid[0] >= 100_000 and step.grid[1:] in ((1, 1), (2, 1))


def test_plans_travel_as_text() -> None:
    problem = f16("63x4095x4097")
    steps = BLOCKS.plan(problem, HOPPER, first(BLOCKS, problem))
    assert from_slots(to_slots(steps)) == list(steps)


def test_sizes_of_one_divisibility_share_a_build() -> None:
    config = first(BLOCKS, f16("4096x4096x4096"))
    small, large = (
        BLOCKS.lower(f16(s), HOPPER, config) for s in ("2048x2048x2048", "4096x4096x4096")
    )
    assert small.digest == large.digest


def test_solvers_race_where_they_may_win() -> None:
    racing = {
        shape: [solver.name for solver in solvers_for(f16(shape), HOPPER)]
        for shape in ("1x4096x4096", "8192x8192x8192")
    }
    assert racing["1x4096x4096"] == ["triton_matmul", "triton_thin", "triton_addresses"]
    assert racing["8192x8192x8192"] == ["triton_matmul"]
    assert [solver.name for solver in solvers_for(f16("4096x4096x4096"), CDNA)] == [
        "triton_addresses"
    ]


def test_what_cannot_be_done_is_refused_in_a_sentence() -> None:
    assert "no copy engine" in BLOCKS.refuses(f16("64x64x64"), AMPERE)
    assert "at most 8 rows" in THIN.refuses(f16("64x64x64"), HOPPER)
    fp8 = operations.parse("matmul:64x64x64:f8e4m3")
    assert "do not take f8e4m3" in ADDRESSES.refuses(fp8, AMPERE)
    assert "cannot do sum" in ADDRESSES.refuses(operations.parse("sum:64x64"), AMPERE)
