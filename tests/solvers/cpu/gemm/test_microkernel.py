"""The micro-kernel is right for every tile, shape, order and block, and one object serves all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpus import HASWELL, NEOVERSE_N1, SKYLAKE_AVX512, skip_unless_it_runs_here
from skipjack.core import Config, Device, numpy_dtype
from skipjack.native import ITEM_BYTES, VectorType, llvm, target_of
from skipjack.operations import parse
from skipjack.solvers.cpu.gemm.microkernel import MicrokernelSolver, generate
from skipjack.solvers.cpu.gemm.microkernel_tile import SLOTS, MicrokernelTile

Runner = Callable[..., npt.NDArray[Any]]
SOLVER = MicrokernelSolver()
SIZES = (1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 64, 97)


def tile_of(rows: int, vectors: int, unroll: int, dtype: str, bytes_: int = 64) -> MicrokernelTile:
    return MicrokernelTile(rows, vectors, unroll, VectorType(dtype, bytes_ // ITEM_BYTES[dtype]))


def multiply(
    run_ir: Runner,
    tile: MicrokernelTile,
    shape: tuple[int, int, int],
    columns_first: bool = False,
    k_block: int = 0,
    target: str = "",
) -> None:
    """Run on guarded arrays and compare with NumPy in float64."""
    m, n, k = shape
    dtype = tile.vector.dtype
    rng = np.random.default_rng(m * n * k)
    a, b = (rng.uniform(-1, 1, size).astype(numpy_dtype(dtype)) for size in ((m, k), (k, n)))
    numbers = [m, n, k, k, n, n, int(columns_first), k_block]
    assert len(numbers) + 3 == len(SLOTS)
    result = run_ir(generate(tile), dtype, [a, b], (m, n), numbers, target)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    bound = (4 + k) * float(np.finfo(numpy_dtype(dtype)).eps)
    np.testing.assert_allclose(result, expected, rtol=0, atol=bound)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    rows=st.sampled_from((1, 2, 3, 4, 6, 8, 14)),
    vectors=st.sampled_from((1, 2, 3, 6)),
    unroll=st.sampled_from((1, 2, 4)),
    dtype=st.sampled_from(("f32", "f64")),
    shape=st.tuples(*[st.sampled_from(SIZES)] * 3),
    columns_first=st.booleans(),
    k_block=st.sampled_from((0, 1, 5, 16, 1000)),
)
def test_any_tile_multiplies_any_shape(
    run_ir: Runner,
    rows: int,
    vectors: int,
    unroll: int,
    dtype: str,
    shape: tuple[int, int, int],
    columns_first: bool,
    k_block: int,
) -> None:
    vectors = min(vectors, 31 // (rows + 1)) or 1
    multiply(run_ir, tile_of(rows, vectors, unroll, dtype), shape, columns_first, k_block)


@pytest.mark.parametrize("shape", [(1, 1, 1), (97, 101, 103), (28, 64, 64), (11, 15, 2)])
@pytest.mark.parametrize("columns_first", [False, True])
def test_tails_in_all_directions_are_covered(
    run_ir: Runner, shape: tuple[int, int, int], columns_first: bool
) -> None:
    multiply(run_ir, tile_of(12, 2, 2, "f32"), shape, columns_first, k_block=10)


@pytest.mark.parametrize("rest", range(1, 12))
def test_every_number_of_rows_beyond_whole_tiles_is_added_once(run_ir: Runner, rest: int) -> None:
    # Rows that an edge tile repeats must not be added to C twice when K comes in blocks.
    multiply(run_ir, tile_of(12, 1, 1, "f32"), (12 + rest, 19, 9), k_block=4)


def test_tiles_from_all_over_the_space_build() -> None:
    problem = parse("matmul:64x64x64")
    seen: dict[tuple[object, ...], Config] = {}
    for config in SOLVER.space(problem, HASWELL).enumerate():
        seen.setdefault(tuple(config[name] for name in ("rows", "vectors", "unroll")), config)
    assert len(seen) > 50
    for config in list(seen.values())[::3]:
        source = SOLVER.lower(problem, HASWELL, config)
        assert SOLVER.compile(source).data


def test_shapes_and_run_time_settings_share_one_build() -> None:
    first = Config(rows=4, vectors=2, unroll=1, columns_first=False, k_block=0)
    second = Config(rows=4, vectors=2, unroll=1, columns_first=True, k_block=64)
    digests = {
        SOLVER.lower(parse(key), SKYLAKE_AVX512, config).digest
        for key in ("matmul:64x64x128", "matmul:191x7x1000")
        for config in (first, second)
    }
    assert len(digests) == 1
    other = SOLVER.lower(parse("matmul:64x64x128:f64"), SKYLAKE_AVX512, first)
    assert other.digest not in digests


def test_slots_follow_the_order_that_the_code_expects() -> None:
    config = Config(rows=4, vectors=2, unroll=1, columns_first=True, k_block=64)
    slots = SOLVER.slots(parse("matmul:3x5x128"), SKYLAKE_AVX512, config)
    named = dict(zip(SLOTS, slots, strict=True))
    assert named["out"] == "out"
    assert (named["m"], named["n"], named["k"]) == (3, 5, 128)
    assert (named["lda"], named["ldb"], named["ldc"]) == (128, 5, 5)
    assert (named["columns_first"], named["k_block"]) == (1, 64)


@pytest.mark.parametrize(
    ("rows", "vectors", "unroll"), [(14, 2, 1), (14, 2, 2), (14, 2, 4), (12, 2, 4), (28, 1, 4)]
)
def test_a_tile_that_fits_the_registers_does_not_spill(
    rows: int, vectors: int, unroll: int
) -> None:
    listing = llvm.assembly(
        generate(tile_of(rows, vectors, unroll, "f32")), target_of(SKYLAKE_AVX512)
    )
    body = re.search(r"^tile_whole_whole:.*?^\.Lfunc_end", listing, re.S | re.M)
    assert body and "vfmadd" in body[0]
    assert not re.search(r"zmm\d+, -?\d*\(%rsp\)", body[0])


@pytest.mark.parametrize(
    "device",
    [HASWELL, SKYLAKE_AVX512, NEOVERSE_N1],
    ids=lambda device: device.arch,
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_it_builds_for_other_cpus(device: Device, dtype: str) -> None:
    problem = parse(f"matmul:64x64x64:{dtype}")
    config = SOLVER.space(problem, device).default()
    assert SOLVER.compile(SOLVER.lower(problem, device, config)).data


@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 29, 17)])
def test_code_for_avx2_runs_right(run_ir: Runner, shape: tuple[int, int, int]) -> None:
    skip_unless_it_runs_here(HASWELL)
    target = target_of(HASWELL)
    multiply(run_ir, tile_of(6, 2, 2, "f32", 32), shape, k_block=5, target=target)


def test_other_operations_and_devices_are_refused_with_a_reason() -> None:
    assert "matmul" in SOLVER.refuses(parse("add:64"), SKYLAKE_AVX512)
    assert "CPU" in SOLVER.refuses(parse("matmul:8x8x8"), Device("gpu", "sm_90", 132))
    assert SOLVER.refuses(parse("matmul:8x8x8"), SKYLAKE_AVX512) == ""
