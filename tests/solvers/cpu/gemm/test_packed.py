"""Packed matrix products: right for any shape, layout, epilogue, block and share of threads."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Config, Device, Problem
from skipjack.errors import SpaceError
from skipjack.execute import Checker
from skipjack.native import Slots, cpu, llvm
from skipjack.operations import parse
from skipjack.solvers.cpu.gemm.product import grid_of
from skipjack.solvers.cpu.gemm.solver import PackedSolver

SOLVER = PackedSolver()
LOADER = llvm.Loader()
KERNELS: dict[str, int] = {}


def device(threads: int = 1) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def run(problem: Problem, config: Config, threads: int = 1) -> Checker:
    """Build and run on guarded arrays; kernels are built once for all shapes."""
    here = device(threads)
    source = SOLVER.lower(problem, here, config)
    if source.digest not in KERNELS:
        KERNELS[source.digest] = LOADER.load(SOLVER.compile(source).data, "kernel")
    checker = Checker(problem)
    checker.prepare()
    slots = Slots(SOLVER.slots(problem, here, config), checker.arrays)
    llvm.c_function(KERNELS[source.digest], ctypes.c_void_p)(slots.address)
    return checker


def assert_right(key: str, threads: int = 1, **choices: object) -> None:
    """Check the result of the default config with some changes."""
    problem = parse(key)
    space = SOLVER.space(problem, device(threads))
    config = Config({**space.default(), **choices})  # type: ignore[dict-item]
    verdict = run(problem, config, threads).verdict()
    assert verdict.right, f"{key} {config}: {verdict.reason}"


@pytest.mark.parametrize(
    "shape", ["1x1x1", "97x61x53", "64x64x64", "5x300x7", "300x5x129", "1x257x64"]
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("pack_a", [False, True])
def test_odd_shapes_are_right(shape: str, dtype: str, pack_a: bool) -> None:
    assert_right(f"matmul:{shape}:{dtype}", pack_a=pack_a)


@pytest.mark.parametrize("attributes", ["ta=1", "tb=1", "ta=1/tb=1"])
def test_operands_may_be_stored_transposed(attributes: str) -> None:
    assert_right(f"matmul:45x83x29/{attributes}", pack_a=True)


@pytest.mark.parametrize(
    "attributes", ["alpha=0.5", "beta=2", "bias=1", "act=relu", "alpha=-2/beta=0.5/bias=1/act=gelu"]
)
def test_the_epilogue_is_applied_once_after_all_blocks_of_k(attributes: str) -> None:
    assert_right(f"matmul:37x70x300/{attributes}", k_block=128, unroll=2)


def test_a_batch_is_a_product_each() -> None:
    assert_right("bmm:5x17x33x19/bias=1")


@pytest.mark.parametrize("split", ["batch", "rows", "columns"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_work_out(split: str, threads: int) -> None:
    assert_right("bmm:4x97x130x40/beta=1", threads, split=split)


@pytest.mark.parametrize(("threads", "split"), [(4, "2x2"), (6, "3x2"), (6, "2x3"), (8, "4x2")])
def test_threads_share_rows_and_columns_out_in_a_grid(threads: int, split: str) -> None:
    assert_right("bmm:2x97x130x40/beta=1/bias=1", threads, split=split)


def test_grids_are_offered_where_threads_can_be_divided() -> None:
    def splits(threads: int, key: str = "matmul:2048x2048x2048") -> set[object]:
        (split,) = (
            one
            for one in SOLVER.space(parse(key), device(threads)).parameters
            if one.name == "split"
        )
        return set(split.values)

    assert splits(3) == {"rows", "columns"}
    assert splits(16) == {"rows", "columns", "2x8", "4x4", "8x2"}
    assert splits(16, "matmul:3x2048x2048") == {"rows", "columns", "2x8"}


def test_what_is_tried_first_differs_in_what_threads_share_out() -> None:
    problem, here = parse("matmul:2048x2048x2048"), device(16)
    first = SOLVER.space(problem, here).promising(16)
    assert any(grid_of(str(config["split"])) for config in first)
    # A thread has 128 of the columns: larger blocks are equivalent.
    columns = [config for config in first if config["split"] == "columns"]
    assert columns
    assert len({config.replace(n_block=0) for config in columns}) == len(columns)


def test_a_grid_is_for_its_number_of_threads() -> None:
    problem = parse("matmul:64x64x64")
    config = Config({**SOLVER.space(problem, device(4)).default(), "split": "2x2"})
    with pytest.raises(SpaceError, match="split=2x2 is for 4 threads, not for 6"):
        SOLVER.slots(problem, device(6), config)


def test_a_few_grids_are_offered_of_many() -> None:
    here = device(96)
    (split,) = (
        one
        for one in SOLVER.space(parse("matmul:2048x2048x2048"), here).parameters
        if one.name == "split"
    )
    assert [one for one in split.values if grid_of(one)] == ["8x12", "12x8", "6x16"]


def test_more_threads_than_work_do_no_harm() -> None:
    assert_right("matmul:2x3x5", 3, split="columns")
    assert_right("matmul:2x3x5", 8, split="2x4")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_configs_of_the_space_are_right(data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(1, 140)) for _ in range(3)]
    problem = parse(f"matmul:{sizes[0]}x{sizes[1]}x{sizes[2]}")
    space = SOLVER.space(problem, device())
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    config = space.sample(rng)
    verdict = run(problem, config).verdict()
    assert verdict.right, f"{problem.key} {config}: {verdict.reason}"


def test_one_object_serves_all_shapes() -> None:
    digests = set()
    for key in ("matmul:10x20x30", "matmul:300x200x100", "bmm:3x5x7x9"):
        problem = parse(key)
        config = SOLVER.space(problem, device()).default()
        config = config.replace(tile="4x4", pack_a=True, unroll=1)
        digests.add(SOLVER.lower(problem, device(), config).digest)
    assert len(digests) == 1


def test_promising_configs_try_several_tiles_the_best_by_estimate_first() -> None:
    problem = parse("matmul:1024x1024x1024")
    space = SOLVER.space(problem, device())
    first = space.promising(16)
    assert len({(config["tile"], config["pack_a"]) for config in first}) >= 4
    everyone = [space.estimate(config) for config in space.enumerate()]
    assert space.estimate(first[0]) == min(everyone)
