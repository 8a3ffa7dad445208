"""Depthwise convolutions: right in every direction, layout and dtype, on any instruction set."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cpus import skip_unless_it_runs_here
from skipjack.core import Config, Device, Problem
from skipjack.execute import draw_inputs
from skipjack.native import cpu, describe, workspace_bytes
from skipjack.operations import get, parse
from skipjack.solvers.cpu.conv.depthwise.solver import DepthwiseSolver
from skipjack.testing.kernels import check_candidate, run_candidate

SOLVER = DepthwiseSolver()
SHAPES = (
    "conv2d:n2c40h9w11k40y3x3p1q1g40",
    "conv2d:n3c33h9w14k33y3x3p1q1u2v2g33",
    "conv2d:n2c5h9w12k5y5x2p3q1u2v3l2j1g5",
    "conv2d:n1c16h12w21k16y7x7p3q3g16",
    "conv2d:n1c8h4w5k8y1x1p2q2g8",
    "conv2d:n2c3h3w3k3y3x3g3",
    "conv3d:n2c5d5h6w7k5z2y3x3o1p1q1t2u1v2g5",
    "conv_transpose2d:n2c6h5w6k6y4x3p1q1u2v2g6a1",
)
SEVERAL = ("conv2d:n2c4h9w12k12y3x3p1q1u2v2g4", "conv3d:n1c3d3h6w20k6z2y3x3o1p1q1g3")
"""With several output channels for each channel."""
DIRECTIONS = ("fwd", "bwd", "wrw")


def device(threads: int) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def problem_of(shape: str, dtype: str, layout: int, direction: str) -> Problem:
    """The layouts that are tested."""
    layouts = get(shape.partition(":")[0]).layouts  # type: ignore[attr-defined]
    return parse(shape, dtype, layout=layouts[layout], direction=direction)


def check_some(problem: Problem, here: Device, count: int) -> None:
    space = SOLVER.space(problem, here)
    rng = np.random.default_rng(0)
    drawn = [space.default(), *(space.sample(rng) for _ in range(count))]
    for config in {config.key: config for config in drawn}.values():
        check_candidate(SOLVER, problem, here, config)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_right(shape: str, layout: int, direction: str) -> None:
    for dtype, threads in (("f32", 2), ("f64", 1)):
        check_some(problem_of(shape, dtype, layout, direction), device(threads), 1)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("shape", SEVERAL)
def test_a_channel_may_give_several(shape: str, direction: str) -> None:
    check_some(problem_of(shape, "f32", 0, direction), device(2), 1)
    assert "as many channels" in SOLVER.refuses(problem_of(shape, "f32", 1, direction), device(1))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("arch", ["haswell", "skylake-avx512"])
def test_it_is_right_on_other_instruction_sets(arch: str, layout: int, direction: str) -> None:
    here = describe(f"{arch}/1")
    skip_unless_it_runs_here(here)
    for shape in SHAPES[:4]:
        check_some(problem_of(shape, "f32", layout, direction), here, 0)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
def test_large_arrays_are_streamed_and_done_in_chunks(layout: int, direction: str) -> None:
    # With small caches, so that results are stored past them and chunks are fetched.
    small = replace(device(2), caches=(("L1", 1 << 10), ("L2", 1 << 11), ("L3", 1 << 12)))
    problem = problem_of("conv2d:n2c32h25w112k32y3x3p1q1g32", "f32", layout, direction)
    space = SOLVER.space(problem, small)
    configs = list(space.enumerate())
    streams = {bool(config["stream"]) for config in configs}
    assert streams == ({False} if direction == "wrw" else {False, True})
    for config in configs[:: max(1, len(configs) // 6)]:
        check_candidate(SOLVER, problem, small, config)


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("layout", [0, 1])
def test_large_filters_go_row_by_row(layout: int, direction: str) -> None:
    problem = problem_of("conv2d:n1c16h12w40k16y7x7p3q3g16", "f32", layout, direction)
    space = SOLVER.space(problem, device(1))
    by_rows = [config for config in space.enumerate() if str(config["strip"]).startswith("rows")]
    assert by_rows
    check_candidate(SOLVER, problem, device(1), by_rows[0])


@pytest.mark.parametrize("layout", [0, 1])
def test_many_threads_find_work_in_few_channels(layout: int) -> None:
    many = device(8)
    for direction in DIRECTIONS:
        problem = problem_of("conv2d:n1c2h40w9k2y3x3p1q1g2", "f32", layout, direction)
        space = SOLVER.space(problem, many)
        config = space.default()
        shared = int(config["chunks"])
        assert shared * 2 >= many.units
        check_candidate(SOLVER, problem, many, config)


@pytest.mark.parametrize("layout,direction", list(product([0, 1], DIRECTIONS)))
def test_it_agrees_with_torch(layout: int, direction: str) -> None:
    torch = pytest.importorskip("torch")
    problem = problem_of("conv2d:n2c24h10w13k24y3x3p1q1u2v2g24", "f64", layout, direction)
    arrays = draw_inputs(problem, 0)
    out = get(problem.operation).output(problem)
    given = {**arrays, "out": np.empty(out.shape)}
    run_candidate(SOLVER, problem, device(1), SOLVER.space(problem, device(1)).default(), given)

    def tensor(name: str, shape: tuple[int, ...]) -> object:
        if name not in arrays:
            return torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        found = torch.from_numpy(arrays[name].copy())
        found = found.movedim(-1, 1) if layout else found
        return found.requires_grad_(name != "dy")

    x, w = tensor("x", (2, 24, 10, 13)), tensor("w", (24, 1, 3, 3))
    y = torch.nn.functional.conv2d(x, w, None, 2, 1, 1, 24)
    if direction != "fwd":
        y.backward(tensor("dy", tuple(y.shape)))
    want = {"fwd": y, "bwd": x.grad, "wrw": w.grad}[direction].detach()  # type: ignore[attr-defined]
    want = want.movedim(1, -1) if layout else want
    np.testing.assert_allclose(given["out"], want.numpy(), rtol=1e-12, atol=1e-12)


def test_images_are_read_where_they_lie() -> None:
    for layout, direction, batch in product([0, 1], DIRECTIONS, [1, 128]):
        shape = f"conv2d:n{batch}c64h56w56k64y3x3p1q1g64"
        problem = problem_of(shape, "f32", layout, direction)
        for config in SOLVER.space(problem, device(2)).enumerate():
            assert workspace_bytes(SOLVER.slots(problem, device(2), config)) < 1 << 17


def test_spaces_are_small_and_code_is_short() -> None:
    for shape, layout, direction in product(
        ("n16c32h112w112k32y3x3p1q1g32", "n1c96h56w56k96y7x7p3q3g96"), [0, 1], DIRECTIONS
    ):
        problem = problem_of(f"conv2d:{shape}", "f32", layout, direction)
        space = SOLVER.space(problem, device(2))
        assert space.count() <= 64
        assert len(SOLVER.lower(problem, device(2), space.default()).text) < 600_000


def test_what_it_does_not_know_is_refused() -> None:
    here = device(1)
    for key, reason in (
        ("matmul:4x4x4", "only supports convolutions"),
        ("conv2d:n1c4h8w8k4y3x3", "one channel in each group"),
        ("conv2d:n1c4h9w9k4y9x3g4", "filters of up to 7x7x7"),
        ("conv2d:n1c4h32w32k4y3x3u8v8g4", "strides of up to 4"),
        ("conv3d:n1c4d4h4w4k4z1y1x1t2g4:f32:NCDHW:bwd", "reaches the input for every plane"),
    ):
        assert reason in SOLVER.refuses(parse(key), here)


def test_it_is_preferred_for_what_it_is_made_for() -> None:
    problem = parse("conv2d:n1c32h8w8k32y3x3p1q1g32")
    assert SOLVER.promise(problem, device(1)) > 1
    assert isinstance(SOLVER.space(problem, device(1)).default(), Config)
