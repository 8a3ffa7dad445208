"""Matrix products of few rows."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Config, Device, Problem
from skipjack.execute import Checker
from skipjack.execute.verification import Verdict
from skipjack.native import Slots, cpu, llvm
from skipjack.operations import parse
from skipjack.solvers import solvers_for
from skipjack.solvers.cpu.gemm.thin_solver import ThinSolver

SOLVER = ThinSolver()
LOADER = llvm.Loader()
KERNELS: dict[str, int] = {}


def device(threads: int = 1) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def run(problem: Problem, config: Config, threads: int = 1) -> Verdict:
    """Build and run on guarded arrays, with scratch memory full of NaN."""
    here = device(threads)
    source = SOLVER.lower(problem, here, config)
    if source.digest not in KERNELS:
        KERNELS[source.digest] = LOADER.load(SOLVER.compile(source).data, "kernel")
    checker = Checker(problem)
    checker.prepare()
    slots = Slots(SOLVER.slots(problem, here, config), checker.arrays, is_poisoned=True)
    llvm.c_function(KERNELS[source.digest], ctypes.c_void_p)(slots.address)
    return checker.verdict()


@pytest.mark.parametrize(
    "key",
    [
        *("matmul:1x1x1", "matmul:1x300x2", "matmul:2x33x129:f64", "matmul:16x4096x40"),
        *("matmul:64x70x50", "matmul:5x70x50/ta=1", "matmul:3x50x40/alpha=0.5"),
        *("matmul:7x33x129/beta=2/bias=1/act=relu", "matmul:4x40x300/bias=1"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_is_tried_first_is_right(key: str, threads: int) -> None:
    problem = parse(key)
    for config in SOLVER.space(problem, device(threads)).promising(3):
        verdict = run(problem, config, threads)
        assert verdict.right, f"{config}: {verdict.reason}"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_configs_of_the_space_are_right(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, most)) for most in (64, 150, 150))
    attributes = data.draw(st.sampled_from(("", "/ta=1", "/bias=1", "/beta=0.5")))
    dtype, threads = data.draw(st.sampled_from(("f32", "f64"))), data.draw(st.integers(1, 4))
    problem = parse(f"matmul:{m}x{n}x{k}{attributes}:{dtype}")
    space = SOLVER.space(problem, device(threads))
    config = space.sample(np.random.default_rng(data.draw(st.integers(0, 1000))))
    verdict = run(problem, config, threads)
    assert verdict.right, f"{problem.key} {config} on {threads} threads: {verdict.reason}"


def test_it_is_for_few_rows_of_a_b_that_is_stored_row_by_row() -> None:
    here = device()
    assert "65 rows" in SOLVER.refuses(parse("matmul:65x64x64"), here)
    assert "row by row" in SOLVER.refuses(parse("matmul:4x64x64/tb=1"), here)
    assert "row by row" in SOLVER.refuses(parse("bmm:2x4x64x64"), here)
    assert "only supports matrix products" in SOLVER.refuses(parse("add:64"), here)
    assert not SOLVER.refuses(parse("matmul:64x64x64"), here)


def test_it_promises_something_where_b_leaves_the_second_cache() -> None:
    here = device()
    assert SOLVER.promise(parse("matmul:16x4096x4096"), here)
    assert not SOLVER.promise(parse("matmul:16x64x64"), here)
    assert not SOLVER.promise(parse("matmul:16x8x400000"), here)
    assert solvers_for(parse("matmul:16x4096x4096"), here)[0].name == "thin"


def test_many_threads_must_read_more_than_they_write() -> None:
    assert SOLVER.promise(parse("matmul:16x4096x4096"), device(64))
    assert not SOLVER.promise(parse("matmul:64x11008x4096"), device(64))
    assert "larger than the data they read" in SOLVER.refuses(parse("matmul:64x128x256"), device(8))
    space = SOLVER.space(parse("matmul:1x65536x256"), device(64))
    assert all(config["steps"] <= 4 for config in space.promising(100))


def test_one_row_asks_for_memory_ahead_where_that_is_faster() -> None:
    def ahead(key: str) -> set[object]:
        parameters = {p.name: p for p in SOLVER.space(parse(key), device()).parameters}
        return set(parameters["ahead_bytes"].values)

    assert ahead("matmul:1x4096x4096") == {0, 1024}
    assert ahead("matmul:16x4096x4096") == {0}
    for rows in (1, 2):
        config = Config(tile="1x4", steps=4, ahead_bytes=1024, apart=True)
        assert run(parse(f"matmul:{rows}x300x40"), config).right
