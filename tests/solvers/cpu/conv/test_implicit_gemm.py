"""Implicit matrix products: right for every convolution that they accept, with all settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Config, Device, Problem, numpy_dtype
from skipjack.execute import draw_inputs
from skipjack.native import cpu, describe, workspace_bytes
from skipjack.operations import get, parse, tensors
from skipjack.solvers.cpu.conv.implicit_gemm.solver import ImplicitGemmSolver
from skipjack.solvers.vendor.cpu import TorchConvolutionSolver
from skipjack.testing.kernels import check_candidate, run_candidate

SOLVER = ImplicitGemmSolver()
DIRECTIONS = ("fwd", "bwd", "wrw")
SHAPES = (
    "conv2d:n2c6h9w11k8y3x3p1q1",
    "conv2d:n2c6h9w11k8y3x2p1q0u2v3l2j1g2",
    "conv2d:n4c40h8w8k50y3x3p1q1",
    "conv2d:n1c16h13w13k48y5x5p2q2u2v2",
    "conv2d:n2c3h20w20k21y7x7p3q3u2v2",
    "conv2d:n1c19h5w20k3y3x3p1q1",
    "conv2d:n2c20h9w9k20y1x1u2v2",
    "conv2d:n1c20h9w9k20y3x3p2q2l2j2",
    "conv2d:n1c8h3w3k8y3x3p3q3",
    "conv2d:n1c4h2w2k4y1x1p1q1u3v3",
    "conv3d:n2c4d5h6w7k6z2y3x3o1p1q1t2u1v2",
    "conv_transpose2d:n2c6h5w6k8y4x3p1q1u2v2g2a1",
)
"""Tails everywhere, strides larger than filters, dilations, groups, few channels on either side."""


def device(threads: int) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def problem_of(shape: str, dtype: str, layout: int, direction: str) -> Problem:
    """Of a layout by its place."""
    layouts = get(shape.partition(":")[0]).layouts  # type: ignore[attr-defined]
    return parse(shape, dtype, layout=layouts[layout], direction=direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_right(shape: str, layout: int, direction: str) -> None:
    for dtype, threads in (("f32", 3), ("f64", 1)):
        problem = problem_of(shape, dtype, layout, direction)
        space = SOLVER.space(problem, device(threads))
        config = space.default() if threads == 1 else space.sample(np.random.default_rng(0))
        check_candidate(SOLVER, problem, device(threads), config)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
def test_every_setting_gives_the_right_result(layout: int, direction: str) -> None:
    problem = problem_of("conv2d:n4c40h7w7k70y3x3p1q1", "f32", layout, direction)
    space = SOLVER.space(problem, device(2))
    first = space.default()
    configs = {first.key: first}
    for parameter in space.parameters:
        for value in (parameter.values[0], parameter.values[-1]):
            other = Config({**first, parameter.name: value})
            if space.contains(other):
                configs[other.key] = other
    assert len(configs) > 3
    for config in configs.values():
        check_candidate(SOLVER, problem, device(2), config)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(
    "shape", ["conv2d:n2c20h9w11k18y3x3p1q1", "conv2d:n2c3h9w9k20y3x3p1q1u2v2"]
)
def test_it_agrees_with_torch(shape: str, layout: int, direction: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    problem = problem_of(shape, "f64", layout, direction)
    inputs = draw_inputs(problem, 0)
    arrays, theirs = (
        {each.name: inputs.get(each.name, np.empty(each.shape)) for each in tensors(problem)}
        for _ in range(2)
    )
    assert arrays["out"].dtype == numpy_dtype("f64")
    TorchConvolutionSolver().bind(problem, theirs)()
    config = SOLVER.space(problem, device(1)).default()
    run_candidate(SOLVER, problem, device(1), config, arrays)
    np.testing.assert_allclose(arrays["out"], theirs["out"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
def test_it_is_right_with_shorter_vectors(layout: int, direction: str) -> None:
    here = describe("haswell/1")
    if set(here.features) - set(cpu.detect().features):
        pytest.skip("this CPU cannot run code for haswell")
    for shape in ("conv2d:n2c20h7w9k24y3x3p1q1", "conv2d:n2c3h9w11k20y3x3p1q1u2v2"):
        problem = problem_of(shape, "f32", layout, direction)
        space = SOLVER.space(problem, here)
        for config in (space.default(), space.sample(np.random.default_rng(0))):
            check_candidate(SOLVER, problem, here, config)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_images_are_not_copied_where_channels_are_last(direction: str) -> None:
    problem = parse("conv2d:n2c32h9w9k32y3x3p1q1", layout="NHWC", direction=direction)
    config = SOLVER.space(problem, device(1)).default()
    slots = SOLVER.slots(problem, device(1), config)
    assert not any("@scratch" in str(each) for each in slots)
    assert workspace_bytes(slots) <= (0 if direction == "wrw" else 4 * 9 * 32 * 96)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_large_batch_needs_no_more_memory_than_a_small_one(layout: str, direction: str) -> None:
    needed = []
    for n in (32, 128):
        problem = parse(f"conv2d:n{n}c64h56w56k64y3x3p1q1u2v2", layout=layout, direction=direction)
        config = SOLVER.space(problem, device(1)).default()
        needed.append(workspace_bytes(SOLVER.slots(problem, device(1), config)))
    assert needed[1] <= 1.1 * needed[0]


def test_blocks_and_shares_of_threads_are_set_at_run_time() -> None:
    problem = parse("conv2d:n4c32h9w9k48y3x3p1q1", layout="NHWC")
    space = SOLVER.space(problem, device(2))
    first = space.default()
    text = SOLVER.lower(problem, device(2), first).text
    others = [
        Config({**first, parameter.name: value})
        for parameter in space.parameters
        if parameter.stage == "run"
        for value in parameter.values
    ]
    assert len(others) > 6
    assert all(SOLVER.lower(problem, device(2), other).text == text for other in others)


def test_the_first_tile_wastes_nothing() -> None:
    problem = parse("conv2d:n16c512h7w7k512y3x3p1q1", layout="NHWC")
    first = SOLVER.space(problem, describe("skylake-avx512/1")).default()
    images, pixels, vectors = map(int, str(first["tile"]).split("x"))
    assert pixels == 7
    assert images * pixels * vectors >= 20


def test_what_it_cannot_do_is_refused() -> None:
    depthwise = parse("conv2d:n1c8h9w9k8y3x3p1q1g8")
    assert "several channels" in SOLVER.refuses(depthwise, device(1))
    assert "only supports convolutions" in SOLVER.refuses(parse("matmul:4x4x4"), device(1))
