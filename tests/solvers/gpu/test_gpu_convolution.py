"""Convolutions on GPUs: what plans do, which problems are whose, and that kernels are right."""

import os
import subprocess
import sys
from math import prod
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack import operations
from skipjack.core import Device
from skipjack.gpu import KNOWN, Launch, from_slots, scratch_sizes, to_slots, unpack
from skipjack.solvers import building_solvers
from skipjack.solvers.gpu.conv.depthwise import DepthwiseConvolution
from skipjack.solvers.gpu.conv.gather import GatherConvolution
from skipjack.solvers.gpu.conv.layer import (
    SumParts,
    best_boxes,
    box_count,
    box_text,
    box_waste,
    parse_box,
)
from skipjack.solvers.gpu.conv.nchw_pointwise import NchwPointwiseConvolution
from skipjack.solvers.gpu.conv.tma import TmaConvolution
from skipjack.solvers.gpu.conv.winograd import WinogradConvolution
from skipjack.solvers.gpu.triton import TritonSolver

CASES = Path(__file__).with_name("convolution_cases.py")
HOPPER = Device("cuda", "sm_90", 132)
AMPERE = Device("cuda", "sm_80", 108)
CDNA = Device("hip", "gfx942", 304)
CDNA_1 = Device("hip", "gfx908", 120)
"""Its matrix units know no tf32."""
BOX, PLANES, GATHER = TmaConvolution(), NchwPointwiseConvolution(), GatherConvolution()
DEPTHWISE, WINOGRAD = DepthwiseConvolution(), WinogradConvolution()
THREE = "conv2d:n32c64h56w56k64y3x3p1q1:f16"
ONE = "conv2d:n32c256h28w28k512y1x1:f16"
TINY = "conv2d:n1c3h4w4k5y3x3u2v2:f16"
"""One pixel: a thread has less than one sum."""


def launched(solver: TritonSolver, key: str, **changed: int | bool | str) -> list[str]:
    """Names of the kernels of the first config, as a plan gives them after its journey."""
    problem = operations.parse(key)
    config = solver.space(problem, HOPPER).default().replace(**changed)
    steps = from_slots(to_slots(solver.plan(problem, HOPPER, config)))
    return [step.kernel for step in steps if isinstance(step, Launch)]


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.long)])
def test_the_interpreter_computes_what_every_plan_says(step: int) -> None:
    """Every sixth case, or all of them."""
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(CASES), str(step)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr[-2000:]
    lines = run.stdout.splitlines()
    assert len(lines) == 1, run.stdout
    assert int(lines[0].split()[0]) > 90 // step


@pytest.mark.parametrize(
    ("solver", "device", "key"),
    [
        (BOX, HOPPER, f"{THREE}:NCHW:bwd"),
        (BOX, HOPPER, "conv2d:n32c256h14w14k256y3x3p1q1:bf16:NHWC:wrw"),
        (PLANES, HOPPER, f"{ONE}:NCHW:wrw"),
        (GATHER, CDNA, f"{THREE}:NHWC:fwd"),
        (GATHER, AMPERE, f"{ONE}:NCHW:wrw"),
        (DEPTHWISE, CDNA, "conv2d:n32c64h56w56k64y3x3p1q1g64:f16:NHWC:bwd"),
        (WINOGRAD, HOPPER, f"{THREE.replace('f16', 'tf32')}:NHWC:fwd"),
        (GATHER, CDNA_1, f"{THREE}:NCHW:fwd"),
        (GATHER, CDNA, TINY),
    ],
)
def test_the_first_config_is_built_for_gpus_that_are_not_here(
    solver: TritonSolver, device: Device, key: str
) -> None:
    pytest.importorskip("triton")
    problem = operations.parse(key)
    assert not solver.refuses(problem, device)
    config = solver.space(problem, device).default()
    artifact = unpack(solver.compile(solver.lower(problem, device, config)).data)
    assert artifact.target == device.arch
    steps = solver.plan(problem, device, config)
    names = [kernel.name for kernel in artifact.kernels]
    assert names == [step.kernel for step in steps if isinstance(step, Launch)]
    most = KNOWN[device.arch].shared_bytes
    assert all(kernel.shared_bytes <= most for kernel in artifact.kernels)
    assert not any(kernel.spill_bytes for kernel in artifact.kernels)


def test_channels_behind_the_pixels_need_no_turn() -> None:
    assert launched(BOX, f"{THREE}:NHWC:fwd") == ["convolution"]
    turned = ["turn_image_filter", "convolution"]
    assert launched(BOX, f"{THREE}:NCHW:fwd", store="planes") == turned
    assert launched(BOX, f"{THREE}:NCHW:fwd", store="box") == [*turned, "turn_back"]
    assert launched(BOX, f"{ONE}:NCHW:bwd", store="planes") == ["turn_result", "convolution"]


def test_planes_of_pointwise_convolutions_are_multiplied_as_they_lie() -> None:
    assert launched(PLANES, f"{ONE}:NCHW:fwd") == ["convolution"]
    assert PLANES.promise(operations.parse(f"{ONE}:NCHW:fwd"), HOPPER) > BOX.promise(
        operations.parse(f"{ONE}:NCHW:fwd"), HOPPER
    )


def test_parts_of_sums_are_added_up_only_where_there_are_several() -> None:
    assert launched(BOX, f"{THREE}:NHWC:wrw", waves=4)[-1] == "sum"
    many = "conv2d:n2c2048h7w7k2048y3x3p1q1:f16:NHWC:wrw"
    assert launched(BOX, many, waves=1) == ["gradient"]


def test_parts_cover_all_chunks_without_an_empty_one() -> None:
    for chunks in (1, 7, 49, 1000):
        for tiles in (1, 3, 500):
            parts = SumParts.of(chunks, tiles, 132, 2)
            assert parts.count * parts.share >= chunks
            assert (parts.count - 1) * parts.share < chunks


@pytest.mark.parametrize(
    ("solver", "key", "reason"),
    [
        (BOX, "matmul:64x64x64:f16", "computes convolutions"),
        (BOX, "conv3d:n1c16d4h4w4k16z3y3x3:f16", "two dimensions"),
        (BOX, "conv2d:n1c3h8w8k16y3x3:f16", "multiples of 8"),
        (BOX, "conv2d:n1c16h9w9k16y3x3u2v2:f16:NHWC:wrw", "multiple of the stride"),
        (BOX, "conv2d:n1c16h9w9k16y3x3u2v2l2j2:f16:NHWC:bwd", "combine strides"),
        (PLANES, f"{ONE}:NHWC", "NCHW"),
        (PLANES, "conv2d:n1c16h7w7k16y1x1:f16:NCHW", "pixels"),
        (DEPTHWISE, THREE, "one channel"),
        (WINOGRAD, f"{THREE}:NHWC:wrw", "filters"),
        (WINOGRAD, "conv2d:n1c16h8w8k16y3x3u2v2:f16", "strides"),
    ],
)
def test_what_a_solver_cannot_do_it_refuses(solver: TritonSolver, key: str, reason: str) -> None:
    assert reason in solver.refuses(operations.parse(key), HOPPER)


def test_products_that_cancel_out_are_not_rounded_to_16_bits() -> None:
    for dtype, right in (("f16", False), ("bf16", False), ("tf32", True), ("f32", True)):
        problem = operations.parse(THREE.replace("f16", dtype))
        names = [solver.name for solver in building_solvers(problem, HOPPER)]
        assert (WINOGRAD.name in names) == right


def test_gpus_without_a_copy_engine_gather() -> None:
    problem = operations.parse(THREE)
    assert "copy engine" in BOX.refuses(problem, AMPERE)
    assert not GATHER.refuses(problem, AMPERE)
    assert GATHER.promise(problem, AMPERE) > GATHER.promise(problem, HOPPER)


def test_boxes_cover_images_with_little_waste() -> None:
    for side in (7, 14, 28, 56):
        for pixels in (64, 128, 256):
            box = best_boxes((32, side, side), pixels, 1)[0]
            assert prod(box) == pixels
            assert box_waste((32, side, side), box) < 1.35
            assert box_count((32, side, side), box) * pixels >= 32 * side * side
            assert parse_box(box_text(box)) == box


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_scratch_memory_is_what_turned_copies_and_parts_take(layout: str, direction: str) -> None:
    problem = operations.parse(f"{THREE}:{layout}:{direction}")
    config = BOX.space(problem, HOPPER).default()
    sizes = scratch_sizes(BOX.plan(problem, HOPPER, config))
    image = 2 * 32 * 64 * 56 * 56
    assert all(size <= image for name, size in sizes.items() if name.startswith("turned"))
    assert bool([name for name in sizes if name.startswith("turned")]) == (layout == "NCHW")
