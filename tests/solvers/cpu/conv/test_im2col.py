"""Convolutions by patches: right in every direction, layout and dtype, with and without threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Device, Problem
from skipjack.native import cpu, workspace_bytes
from skipjack.operations import get, parse
from skipjack.solvers.cpu.conv.explicit_gemm.im2col import Im2colSolver
from skipjack.solvers.cpu.ir import Rounds
from skipjack.testing.kernels import check_candidate

SOLVER = Im2colSolver()
SHAPES = (
    "conv2d:n2c6h9w11k8y3x3p1q1",
    "conv2d:n2c6h9w11k8y3x2p1q0u2v3l2j1g2",
    "conv2d:n3c6h7w7k12y3x3p1q1g3",
    "conv2d:n2c3h12w10k9y7x7p3q3u2v2",
    "conv2d:n2c5h6w6k7y2x2u3v3",
    "conv2d:n1c6h4w4k8y1x1p2q2",
    "conv3d:n2c4d5h6w7k6z2y3x3o1p1q1t2u1v2",
    "conv_transpose2d:n2c6h5w6k8y4x3p1q1u2v2g2a1",
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


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rounds_of_images_are_right(layout: str, direction: str, threads: int) -> None:
    shape = "n6c32h34w34k20y3x3p1q1u2v2" if direction == "bwd" else "n6c64h30w30k8y3x3"
    problem = parse(f"conv2d:{shape}", layout=layout, direction=direction)
    here = device(threads)
    config = SOLVER.space(problem, here).default()
    rounds = SOLVER.parts(problem, here, config)[-1]
    assert isinstance(rounds, Rounds)
    assert rounds.threads == (1 if direction == "wrw" else threads)
    check_candidate(SOLVER, problem, here, config)


def test_a_large_batch_needs_no_more_memory_than_a_small_one() -> None:
    needed = []
    for n in (8, 128):
        problem = parse(f"conv2d:n{n}c64h28w28k64y3x3p1q1", layout="NHWC")
        config = SOLVER.space(problem, device(1)).default()
        needed.append(workspace_bytes(SOLVER.slots(problem, device(1), config)))
    assert needed[1] <= 1.5 * needed[0]


def test_it_is_not_tried_where_nothing_is_to_be_gained() -> None:
    def promise(shape: str, direction: str = "fwd") -> float:
        return SOLVER.promise(parse(f"conv2d:{shape}", direction=direction), device(1))

    assert promise("n1c64h8w8k64y3x3p1q1") > 0
    assert promise("n1c64h8w8k64y3x3p1q1u2v2") > 0
    assert promise("n1c64h8w8k64y3x3p1q1u2v2", "bwd") == 0
    assert promise("n1c64h8w8k64y1x1") == 0
    assert promise("n1c64h8w8k64y3x3p1q1g64") == 0


def test_matrix_products_are_refused() -> None:
    assert "only supports convolutions" in SOLVER.refuses(parse("matmul:4x4x4"), cpu.detect())


def test_what_would_take_much_memory_is_refused() -> None:
    large = parse("conv2d:n1c3h224w224k64y7x7p3q3u2v2", direction="bwd")
    assert "64 Mi elements" in SOLVER.refuses(large, cpu.detect())
    assert not SOLVER.refuses(replace(large, direction="fwd"), cpu.detect())
