"""Pointwise convolutions as products: right in every direction and layout, strided and grouped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cpus import SKYLAKE_AVX512
from skipjack.core import Config, Device, Problem
from skipjack.native import cpu, describe, workspace_bytes
from skipjack.operations import get, parse
from skipjack.solvers.cpu.conv.explicit_gemm.gemm1x1 import Gemm1x1Solver
from skipjack.solvers.cpu.ir import Rounds
from skipjack.testing.kernels import check_candidate

SOLVER = Gemm1x1Solver()
SHAPES = (
    "conv2d:n3c20h7w7k24y1x1",
    "conv2d:n1c70h5w3k33y1x1",
    "conv2d:n3c12h4w5k16y1x1g2",
    "conv2d:n2c12h8w6k10y1x1u2v2",
    "conv2d:n4c12h7w9k10y1x1u2v3g2",
    "conv3d:n2c6d3h4w5k7z1y1x1",
    "conv3d:n2c6d3h4w5k7z1y1x1t2u2v2",
    "conv_transpose2d:n2c6h5w6k8y1x1u2v2a1",
)


def device(threads: int) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def problem_of(shape: str, dtype: str, layout: int, direction: str) -> Problem:
    """Of a layout by its place."""
    layouts = get(shape.partition(":")[0]).layouts  # type: ignore[attr-defined]
    return parse(shape, dtype, layout=layouts[layout], direction=direction)


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_right(shape: str, layout: int, direction: str) -> None:
    for dtype, threads in (("f32", 2), ("f64", 1)):
        here = device(threads)
        problem = problem_of(shape, dtype, layout, direction)
        space = SOLVER.space(problem, here)
        config = space.default() if threads == 1 else space.sample(np.random.default_rng(0))
        check_candidate(SOLVER, problem, here, config)


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_pixels_and_channels_can_be_rows_where_pixels_lie_side_by_side(direction: str) -> None:
    problem = parse("conv2d:n3c20h7w7k24y1x1", layout="NCHW", direction=direction)
    space = SOLVER.space(problem, device(1))
    rows = {config["rows"]: config for config in space.enumerate()}
    assert set(rows) == {"pixels", "channels"}
    for config in rows.values():
        check_candidate(SOLVER, problem, device(1), config)


def test_a_filter_that_lies_across_is_packed() -> None:
    problem = parse("conv2d:n3c20h7w7k24y1x1", layout="NCHW")
    packed = {
        (config["rows"], config["pack_b"])
        for config in SOLVER.space(problem, device(1)).enumerate()
    }
    assert packed == {("pixels", True), ("channels", True), ("channels", False)}


def test_rounds_of_images_add_their_gradients_up() -> None:
    problem = parse("conv2d:n6c320h48w48k8y1x1u2v2", layout="NCHW", direction="wrw")
    here = device(1)
    config = SOLVER.space(problem, here).default()
    (rounds,) = SOLVER.parts(problem, here, config)
    assert isinstance(rounds, Rounds)
    assert rounds.count > 1
    check_candidate(SOLVER, problem, here, config)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_large_batch_needs_no_more_memory_than_a_small_one(layout: str) -> None:
    needed = []
    for n in (8, 128):
        problem = parse(f"conv2d:n{n}c256h56w56k128y1x1u2v2", layout=layout)
        config = SOLVER.space(problem, device(1)).default()
        needed.append(workspace_bytes(SOLVER.slots(problem, device(1), config)))
    assert needed[1] <= 1.5 * needed[0]


def test_pixels_are_skipped_in_place_where_channels_lie_side_by_side() -> None:
    problem = parse("conv2d:n2c32h8w8k32y1x1u2v2", layout="NHWC", direction="wrw")
    config = SOLVER.space(problem, device(1)).default()
    assert not any("@scratch" in str(s) for s in SOLVER.slots(problem, device(1), config))


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_it_is_right_with_shorter_vectors(layout: str, direction: str) -> None:
    here = describe("haswell/1")
    if set(here.features) - set(cpu.detect().features):
        pytest.skip("this CPU cannot run code for haswell")
    problem = parse("conv2d:n2c20h7w7k24y1x1", layout=layout, direction=direction)
    space = SOLVER.space(problem, here)
    for config in (space.default(), space.sample(np.random.default_rng(0))):
        check_candidate(SOLVER, problem, here, config)


def test_the_first_configs_promise_best() -> None:
    problem = parse("conv2d:n1c512h7w7k2048y1x1", layout="NCHW")
    space = SOLVER.space(problem, SKYLAKE_AVX512)
    first: Config = space.default()
    assert first["rows"] == "pixels"
    assert str(first["tile"]).startswith("7x")


def test_it_promises_little_for_narrow_groups_and_few_pixels() -> None:
    def promise(shape: str) -> float:
        return SOLVER.promise(parse(f"conv2d:{shape}"), device(1))

    assert promise("n1c64h7w7k64y1x1") > 1
    assert promise("n1c64h1w1k64y1x1") < 1
    assert promise("n1c64h7w7k64y1x1g16") < 1


def test_other_filters_are_refused() -> None:
    refused = SOLVER.refuses(parse("conv2d:n1c4h8w8k4y3x3p1q1"), device(1))
    assert "1x1" in refused
    assert "padding" in SOLVER.refuses(parse("conv2d:n1c4h8w8k4y1x1p1q1"), device(1))
    assert "only supports convolutions" in SOLVER.refuses(parse("matmul:4x4x4"), device(1))
