"""The solver for row programs: its space, its order, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cpus import HASWELL, NEOVERSE_N1, SKYLAKE_AVX512
from skipjack.core import Config, Device, Problem
from skipjack.execute import Checker
from skipjack.execute.cpu.kernels import NativeKernel
from skipjack.native import NativeTimer, detect, llvm, target_of
from skipjack.operations import parse
from skipjack.solvers.cpu.nest_code.solver import NestSolver
from skipjack.solvers.cpu.rows.solver import RowsSolver

SOLVER = RowsSolver()
CACHES = (("L1", 32 << 10), ("L2", 1 << 20), ("L3", 32 << 20))
AVX512 = replace(SKYLAKE_AVX512, caches=CACHES)
KEYS = (
    "softmax:2x2500",
    "softmax:7x131",
    "layernorm:6x96:f64",
    "layernorm_backward:9x131",
    "layernorm_backward:6x96:f64",
    "batchnorm:n3c5h7w7",
    "batchnorm:n2c4h4w8/mode=infer",
    "batchnorm:n3c4h5w5/mode=backward:f64",
)


def space(key: str, device: Device = AVX512) -> Any:
    return SOLVER.space(parse(key), device)


def values(key: str, name: str) -> tuple[Any, ...]:
    return next(p.values for p in space(key).parameters if p.name == name)


def verify(problem: Problem, device: Device, configs: Sequence[Config]) -> None:
    """Each config's result is right, on arrays fenced by guard pages."""
    checker, loader = Checker(problem), llvm.Loader()
    timer = NativeTimer(loader, target_of(device))
    for config in configs:
        blob = SOLVER.compile(SOLVER.lower(problem, device, config))
        address = loader.load(blob.data, blob.symbol)
        checker.prepare()
        kernel = NativeKernel(address, SOLVER.slots(problem, device, config), checker.arrays, timer)
        kernel.call()
        verdict = checker.verdict()
        assert verdict.right, f"{config}: {verdict.reason}"


@pytest.mark.parametrize("key", KEYS)
def test_configs_from_all_over_the_space_are_verified(key: str) -> None:
    problem, device = parse(key), detect()
    rng = np.random.default_rng(0)
    here = SOLVER.space(problem, device)
    verify(problem, device, [here.default(), *(here.sample(rng) for _ in range(6))])


@pytest.mark.parametrize("key", [*KEYS, "softmax:3x9", "softmax:2x64"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_rows_out(key: str, threads: int) -> None:
    problem, device = parse(key), replace(detect(), units=threads)
    shared = [c for c in SOLVER.space(problem, device).enumerate() if c["parallel"]]
    assert shared
    verify(problem, device, shared[:: max(1, len(shared) // 6)])


def test_one_thread_or_one_row_is_not_shared() -> None:
    assert values("softmax:64x64", "parallel") == (False,)
    two = replace(AVX512, units=2)
    assert not any(config["parallel"] for config in space("softmax:1x64", two).enumerate())


@pytest.mark.parametrize(
    "key", ["softmax:1x9001", "layernorm:3x4100", "batchnorm:n2c1h47w47/mode=backward:f64"]
)
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_few_long_rows_by_pieces(key: str, threads: int) -> None:
    problem, device = parse(key), replace(detect(), units=threads)
    here = SOLVER.space(problem, device)
    pieces = [config for config in here.enumerate() if config["pieces"]]
    assert pieces
    verify(problem, device, pieces[:: max(1, len(pieces) // 6)])


def test_one_long_row_is_expected_to_be_faster_in_pieces() -> None:
    two = replace(AVX512, units=2)
    assert all(config["pieces"] for config in space("softmax:1x200000", two).promising(4))


def test_many_rows_are_not_cut_to_pieces() -> None:
    two = replace(AVX512, units=2)
    for key in ("softmax:64x4096", "batchnorm:n8c64h56w56"):
        assert not any(config["pieces"] for config in space(key, two).enumerate())


def test_the_default_is_the_first_by_the_estimate() -> None:
    here = space("layernorm:4096x1024")
    assert here.default() == here.promising(1)[0]


def test_only_settings_that_make_a_difference_are_offered() -> None:
    assert values("softmax:1x1024", "rows") == (1,)
    assert values("softmax:64x5", "copies") == (1,)
    assert values("softmax:64x1024", "keep") == ("output", "again")
    assert values("softmax:4096x1024", "keep") == ("output", "scratch", "again")
    assert values("layernorm:64x1024", "keep") == ("again",)
    assert values("layernorm:64x1024", "ahead") == (False,)
    assert values("layernorm:4096x1024", "ahead") == (False, True)
    assert values("layernorm:4096x1024", "block") == (0,)
    assert values("batchnorm:c64h56w56", "block") == (0,)
    assert values("softmax:64x1024", "chunk") == values("layernorm:64x9000", "chunk") == (0,)
    assert values("softmax:64x9000", "chunk") == values("logsoftmax:9x9000", "chunk") == (0, 16, 32)
    assert values("batchnorm:n8c64h56w56", "block") == (0, 4, 16, 64)
    assert values("softmax:64x1024", "streaming") == (False,)
    assert values("softmax:4096x1024", "streaming") == (False, True)
    assert values("softmax:4096x1024", "aligned") == (False,)
    assert values("softmax:4096x1023", "aligned") == (False, True)
    assert values("softmax:4096x7", "aligned") == values("softmax:4096x7", "streaming") == (False,)
    assert values("batchnorm:n8c64h56w56", "program") == ("two_pass", "one_pass")


def test_what_is_kept_in_the_output_is_not_streamed_and_scratch_memory_is_for_streaming() -> None:
    pairs = {(c["keep"], c["streaming"]) for c in space("softmax:4096x1024").enumerate()}
    assert pairs == {("output", False), ("scratch", True), ("again", False), ("again", True)}


def test_rows_that_begin_anywhere_are_streamed_only_from_where_they_are_aligned() -> None:
    pairs = {(c["aligned"], c["streaming"]) for c in space("softmax:4096x1023").enumerate()}
    assert pairs == {(False, False), (True, False), (True, True)}


def test_long_rows_are_expected_to_be_faster_in_chunks() -> None:
    best = space("softmax:1024x50257").promising(8)
    assert all(config["chunk"] for config in best[:4])
    assert {config["keep"] for config in best} == {"output", "scratch"}


def test_accumulators_are_in_registers_or_in_memory() -> None:
    for config in space("batchnorm:n8c64h56w56").enumerate():
        assert config["block"] == 0 or (config["rows"] == 1 and not config["ahead"])


def test_beyond_the_second_cache_the_order_of_memory_is_tried_first() -> None:
    blocks = {config["block"] for config in space("batchnorm:n32c256h14w14").promising(8)}
    assert 256 in blocks
    small = space("batchnorm:n4c64h7w7").promising(8)
    assert all(config["block"] == 0 for config in small)


def test_threads_have_scratch_memory_of_their_own() -> None:
    problem, two = parse("batchnorm:n8c64h56w56"), replace(AVX512, units=2)
    config = next(c for c in SOLVER.space(problem, two).enumerate() if c["block"] == 16)
    alone, shared = (
        SOLVER.slots(problem, two, Config({**config, "parallel": parallel}))
        for parallel in (False, True)
    )
    sizes = [int(str(slots[6]).removeprefix("@workspace:")) for slots in (alone, shared)]
    assert sizes[1] == 2 * sizes[0] > 0


def test_several_sums_in_flight_are_expected_to_be_faster() -> None:
    here = space("layernorm:4096x1024")
    best = here.promising(8)
    assert all(config["copies"] * config["rows"] >= 4 for config in best)
    short = space("softmax:4096x8").promising(1)[0]
    assert short["rows"] > 1


def test_each_other_kind_of_problem_is_refused_with_a_reason() -> None:
    add, softmax = parse("add:64"), parse("softmax:8x8")
    assert "passes over rows" in SOLVER.refuses(add, AVX512)
    assert "CPU" in SOLVER.refuses(softmax, Device("gpu", "sm_90", 132))
    assert SOLVER.refuses(softmax, AVX512) == ""
    assert "loop nest" in NestSolver().refuses(softmax, AVX512)
    assert NestSolver().refuses(add, AVX512) == ""


@pytest.mark.parametrize(
    "device",
    [
        HASWELL,
        NEOVERSE_N1,
        AVX512,
    ],
    ids=lambda device: device.arch,
)
@pytest.mark.parametrize("key", KEYS)
def test_it_builds_for_other_cpus(device: Device, key: str) -> None:
    problem: Problem = parse(key)
    config = SOLVER.space(problem, device).sample(np.random.default_rng(2))
    assert SOLVER.compile(SOLVER.lower(problem, device, config)).data
