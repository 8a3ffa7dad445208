"""Winograd convolutions: right in every direction, layout and dtype; refused if too inaccurate."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from cpus import SKYLAKE_AVX512, skip_unless_it_runs_here
from skipjack.core import Device, Problem
from skipjack.execute import Checker
from skipjack.native import cpu, describe, workspace_bytes
from skipjack.operations import parse
from skipjack.operations.conv_geometry import convolve
from skipjack.solvers.cpu.conv.requirements import geometry_of
from skipjack.solvers.cpu.conv.winograd.solver import (
    WINOGRAD_SOLVERS,
    WinogradSolver,
    fewest_products,
)
from skipjack.solvers.cpu.ir import Rounds
from skipjack.solvers.vendor.cpu import TorchConvolutionSolver
from skipjack.testing.kernels import check_candidate, run_candidate

F2, F4 = WINOGRAD_SOLVERS
SHAPES = (
    "n2c6h9w11k8y3x3p1q1",
    "n3c17h7w7k33y3x3p0q2",
    "n1c16h5w6k70y3x3p2q0",
    "n20c40h2w3k20y3x3p1q2",
    "n5c32h14w13k16y3x3p1q1",
)
DIRECTIONS = pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
LAYOUTS = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
BOTH = pytest.mark.parametrize("solver", WINOGRAD_SOLVERS, ids=lambda solver: solver.name)


def device(threads: int) -> Device:
    """This CPU with a number of threads: a pool does not need a core for each."""
    return replace(cpu.detect(), units=threads)


def conv(shape: str, dtype: str = "f32", layout: str = "NHWC", direction: str = "fwd") -> Problem:
    return parse(f"conv2d:{shape}", dtype, layout=layout, direction=direction)


@DIRECTIONS
@LAYOUTS
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_right(shape: str, layout: str, direction: str) -> None:
    for solver, dtype, threads in ((F2, "f64", 1), (F4, "f32", 2)):
        problem, here = conv(shape, dtype, layout, direction), device(threads)
        config = solver.space(problem, here).sample(np.random.default_rng(len(shape)))
        check_candidate(solver, problem, here, config)


@DIRECTIONS
@LAYOUTS
@pytest.mark.parametrize("over", ["tiles", "columns"])
@pytest.mark.parametrize("share", ["rounds", "stages"])
def test_rounds_and_stages_are_shared_out(
    over: str, share: str, layout: str, direction: str
) -> None:
    problem, here = conv("n3c40h14w14k72y3x3p1q1", "f32", layout, direction), device(3)
    configs = [
        config
        for config in F4.space(problem, here).enumerate()
        if (config["over"], config["share"], config["block"]) == (over, share, 1)
    ]
    if (direction, over, share) == ("wrw", "tiles", "rounds"):
        assert not configs, "threads would add to the same sums"
        return
    rounds = next(part for part in F4.parts(problem, here, configs[0]) if isinstance(part, Rounds))
    assert rounds.count > 1
    assert rounds.threads == (3 if share == "rounds" else 1)
    check_candidate(F4, problem, here, configs[0])


@BOTH
@DIRECTIONS
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed")
def test_torch_gets_the_same(direction: str, solver: WinogradSolver) -> None:
    problem, here = conv("n2c20h12w10k24y3x3p1q1", "f64", "NCHW", direction), device(1)
    ours, theirs = Checker(problem).arrays, Checker(problem).arrays
    TorchConvolutionSolver().bind(problem, theirs)()
    run_candidate(solver, problem, here, solver.space(problem, here).default(), ours)
    np.testing.assert_allclose(ours["out"], theirs["out"], rtol=0, atol=1e-11)


@DIRECTIONS
@pytest.mark.parametrize("arch", ["haswell", "skylake-avx512"])
def test_it_is_right_on_named_cpus(arch: str, direction: str) -> None:
    here = describe(f"{arch}/1")
    skip_unless_it_runs_here(here)
    for solver, layout in ((F2, "NHWC"), (F4, "NCHW")):
        problem = conv(SHAPES[0], "f32", layout, direction)
        check_candidate(solver, problem, here, solver.space(problem, here).default())


def test_it_builds_for_arm() -> None:
    here = describe("neoverse-n1/2")
    problem = conv(SHAPES[0], "f32", "NCHW", "wrw")
    assert F4.compile(F4.lower(problem, here, F4.space(problem, here).default())).data


@BOTH
@DIRECTIONS
@pytest.mark.parametrize(("products", "dtype"), [(16, "f32"), (64, "f64")])
def test_errors_stay_well_within_the_slack(
    products: int, dtype: str, direction: str, solver: WinogradSolver
) -> None:
    size = products // 4
    shape = {
        "fwd": f"n4c{size}h24w24k32",
        "bwd": f"n4c32h24w24k{size}",
        "wrw": f"n{size // 4}c32h5w5k96",
    }[direction]
    problem, here = conv(f"{shape}y3x3p1q1", dtype, "NHWC", direction), device(1)
    assert fewest_products(geometry_of(problem)) == products
    assert not solver.refuses(problem, here)
    checker = Checker(problem)
    checker.prepare()
    run_candidate(solver, problem, here, solver.space(problem, here).default(), checker.arrays)
    assert checker.verdict(solver.tolerance_factor(problem) / 2).right


def test_slack_shrinks_with_the_length_of_sums() -> None:
    slacks = [F4.tolerance_factor(conv(f"n1c{c}h8w8k64y3x3p1q1")) for c in (4, 64, 1024)]
    assert slacks == sorted(slacks, reverse=True)
    assert slacks[0] < 32
    assert slacks[-1] < 1.2
    assert F2.tolerance_factor(conv("n1c4h8w8k64y3x3p1q1")) == 1


@BOTH
def test_a_wrong_element_is_beyond_the_slack(solver: WinogradSolver) -> None:
    problem, here = conv("n1c16h12w12k16y3x3p1q1"), device(1)
    checker = Checker(problem)
    checker.prepare()
    run_candidate(solver, problem, here, solver.space(problem, here).default(), checker.arrays)
    assert checker.verdict(solver.tolerance_factor(problem)).right
    checker.arrays["out"][0, 5, 5, 3] += 1e-2
    assert not checker.verdict(solver.tolerance_factor(problem)).right


@DIRECTIONS
@pytest.mark.parametrize("pads", ["p0q0", "p1q2", "p2q1"])
def test_the_shortest_sum_is_found(pads: str, direction: str) -> None:
    for size in ("h3w4", "h7w5"):
        geometry = geometry_of(conv(f"n2c3{size}k5y3x3{pads}", "f64", direction=direction))
        ones = [np.ones(tensor.shape) for tensor in geometry.inputs]
        assert convolve(geometry, *ones).min() == fewest_products(geometry)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("matmul:4x4x4", "only supports convolutions"),
        ("conv2d:n1c64h8w8k64y5x5p2q2", "a 3x3 filter"),
        ("conv2d:n1c64h8w8k64y3x3u2v2", "strides of 1"),
        ("conv2d:n1c64h8w8k64y3x3l2j2", "dilations of 1"),
        ("conv2d:n1c64h8w8k64y3x3g2", "a single group"),
        ("conv2d:n1c64h8w8k64y3x3p3q3", "pads of at most 2"),
        ("conv2d:n1c3h8w8k64y3x3p1q1", "16 products"),
        ("conv2d:n20c40h1w3k20y3x3p1q1:f32:NHWC:wrw", "16 products"),
        ("conv3d:n1c64d4h8w8k64z1y3x3", "without depth"),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_reason(key: str, reason: str) -> None:
    assert reason in F4.refuses(parse(key), device(1))


def test_a_transposed_convolution_is_one_of_another_direction() -> None:
    problem = parse("conv_transpose2d:n2c20h7w6k24y3x3p1q1", layout="NHWC")
    check_candidate(F4, problem, device(1), F4.space(problem, device(1)).default())


def test_a_large_batch_needs_no_more_memory_than_a_small_one() -> None:
    for direction in ("fwd", "bwd", "wrw"):
        for layout in ("NCHW", "NHWC"):
            needed = []
            for n in (8, 128):
                problem = conv(f"n{n}c64h56w56k64y3x3p1q1", "f32", layout, direction)
                config = F4.space(problem, device(1)).default()
                needed.append(workspace_bytes(F4.slots(problem, device(1), config)))
            assert needed[1] <= 1.1 * needed[0]


def test_no_config_of_a_large_batch_asks_for_too_much_memory() -> None:
    problem = conv("n256c64h56w56k64y3x3p1q1")
    space = F4.space(problem, device(1))
    assert all(
        workspace_bytes(F4.slots(problem, device(1), config)) < 300e6
        for config in space.enumerate()
    )


def test_blocks_that_make_the_same_rounds_are_offered_once() -> None:
    problem, here = conv("n2c64h14w14k64y3x3p1q1"), device(1)
    configs = list(F4.space(problem, here).enumerate())
    rounds = [
        (config["tile"], config["over"], F4.plan(problem, here, config).block_sizes)
        for config in configs
    ]
    assert len(set(rounds)) == len(configs)


def test_it_promises_much_where_channels_and_tiles_are_many() -> None:
    def promise(solver: WinogradSolver, shape: str) -> float:
        return solver.promise(conv(f"{shape}y3x3p1q1"), SKYLAKE_AVX512)

    assert promise(F4, "n16c64h56w56k64") > 2
    assert promise(F4, "n16c64h56w56k64") > promise(F2, "n16c64h56w56k64")
    assert promise(F4, "n16c64h56w56k64") > promise(F4, "n1c256h14w14k256") > 1
    assert promise(F4, "n1c512h4w4k512") < 1
    assert promise(F4, "n1c20h9w9k20") == 0
