"""The direct convolution: right in every direction, layout and dtype, with and without threads."""

from __future__ import annotations

import numpy as np
import pytest

from skipjack.native import cpu, workspace_bytes
from skipjack.operations import get, parse
from skipjack.solvers.cpu.conv.direct.solver import DirectNestSolver, DirectSolver
from skipjack.testing.kernels import check_candidate

SOLVER = DirectSolver()
SHAPES = (
    "conv2d:n2c6h9w11k8y3x3p1q1",
    "conv2d:n2c6h9w11k8y3x2p1q0u2v3l2j1g2",
    "conv2d:n4c48h7w7k48y3x3p1q1g48",
    "conv2d:n1c6h8w8k12y1x1g6",
    "conv2d:n4c3h17w15k32y3x3p1q1u2v2",
    "conv2d:n4c16h7w7k32y1x1u2v2",
    "conv2d:n1c1h8w8k1y3x3",
    "conv2d:n2c5h6w6k7y5x5p4q4",
    "conv2d:n2c5h6w6k7y2x2u3v3",
    "conv3d:n2c4d5h6w7k6z2y3x3o1p1q1t2u1v2",
    "conv_transpose2d:n2c6h5w6k8y4x3p1q1u2v2g2a1",
    "conv_transpose3d:n1c4d3h4w5k6z2y3x3o1p1q1t2u2v2e1a1b1",
)


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_right(shape: str, layout: int, direction: str) -> None:
    layouts = get(shape.partition(":")[0]).layouts  # type: ignore[attr-defined]
    for dtype, threads in (("f32", 1), ("f64", 2), ("f32", 2)):
        device = cpu.detect(min(threads, len(cpu.usable_cores())))
        problem = parse(shape, dtype, layout=layouts[layout], direction=direction)
        space = SOLVER.space(problem, device)
        for config in (space.default(), space.sample(np.random.default_rng(threads))):
            check_candidate(SOLVER, problem, device, config)


def test_what_lies_right_is_not_copied() -> None:
    device = cpu.detect()
    for shape, copied in (("n8c32h8w8k32y3x3", False), ("n8c32h8w8k32y3x3p1q1", True)):
        problem = parse(f"conv2d:{shape}", layout="NHWC", direction="wrw")
        config = SOLVER.space(problem, device).default()
        assert (workspace_bytes(SOLVER.slots(problem, device, config)) > 0) is copied


def test_rounds_of_few_images_need_little_memory() -> None:
    device = cpu.detect()
    problem = parse("conv2d:n64c32h28w28k32y3x3p1q1", layout="NHWC")
    space = SOLVER.space(problem, device)
    needed = {
        int(config["images"]): workspace_bytes(SOLVER.slots(problem, device, config))
        for config in space.enumerate()
    }
    assert 30 * needed[1] < needed[64]


def test_matrix_products_are_refused() -> None:
    assert "only supports convolutions" in SOLVER.refuses(parse("matmul:4x4x4"), cpu.detect())


@pytest.mark.parametrize("direction", ["fwd", "wrw"])
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_its_nest_is_right_under_any_schedule(shape: str, direction: str) -> None:
    solver = DirectNestSolver()
    for layout, threads in (("NCHW", 1), ("NHWC", 2)):
        device = cpu.detect(min(threads, len(cpu.usable_cores())))
        problem = parse(shape, "f32", layout=layout, direction=direction)
        assert not solver.refuses(problem, device)
        space = solver.space(problem, device)
        for config in (*space.promising(2), space.sample(np.random.default_rng(threads))):
            assert space.contains(config)
            check_candidate(solver, problem, device, config)


def test_the_gradient_of_an_image_is_no_single_nest() -> None:
    problem = parse("conv2d:n1c8h8w8k8y3x3", direction="bwd")
    assert "several loop nests" in DirectNestSolver().refuses(problem, cpu.detect())
