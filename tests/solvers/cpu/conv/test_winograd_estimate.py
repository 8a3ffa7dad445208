"""The estimate of a Winograd convolution orders configs as caches and threads would."""

from __future__ import annotations

from dataclasses import replace

from skipjack.core import Config, Device
from skipjack.operations import parse
from skipjack.solvers.cpu.conv.winograd.plan import estimate
from skipjack.solvers.cpu.conv.winograd.solver import WINOGRAD_SOLVERS

F2, F4 = WINOGRAD_SOLVERS
DEVICE = Device(
    "cpu",
    "skylake-avx512",
    1,
    vector_bytes=64,
    caches=(("L1", 32 << 10), ("L2", 1 << 20), ("L3", 32 << 20)),
)


def cycles(
    shape: str, over: str, block: int, threads: int = 1, share: str = "rounds", tile: str = "8x2"
) -> float:
    """The estimate of F4 in NHWC."""
    problem = parse(f"conv2d:{shape}y3x3p1q1", layout="NHWC")
    here = replace(DEVICE, units=threads)
    config = Config({"tile": tile, "over": over, "block": block, "share": share})
    return estimate(F4.plan(problem, here, config), here)


def test_rounds_that_fit_the_caches_are_quicker() -> None:
    assert cycles("n16c64h56w56k64", "tiles", 4) < cycles("n16c64h56w56k64", "tiles", 64)


def test_rounds_are_over_tiles_unless_filters_are_larger() -> None:
    assert cycles("n16c64h56w56k64", "tiles", 4) < cycles("n16c64h56w56k64", "columns", 1)
    assert cycles("n1c256h14w14k256", "columns", 1) < cycles("n1c256h14w14k256", "tiles", 2)


def test_columns_that_fill_no_panel_cost_time() -> None:
    wide, narrow = (cycles("n1c64h56w56k80", "tiles", 4, tile=tile) for tile in ("6x4", "12x1"))
    assert narrow < wide


def test_two_threads_take_about_half_as_long_unless_one_is_idle() -> None:
    alone = cycles("n16c64h56w56k64", "tiles", 4)
    assert 0.45 < cycles("n16c64h56w56k64", "tiles", 4, 2) / alone < 0.55
    # One round for all tiles.
    alone = cycles("n1c64h28w28k64", "tiles", 8)
    assert cycles("n1c64h28w28k64", "tiles", 8, 2) > 0.8 * alone
    assert cycles("n1c64h28w28k64", "tiles", 8, 2, "stages") < 0.7 * alone


def test_larger_tiles_are_quicker_where_they_cover_the_image() -> None:
    problem = parse("conv2d:n16c64h56w56k64y3x3p1q1", layout="NHWC")
    assert F4.quickest(problem, DEVICE) < 0.8 * F2.quickest(problem, DEVICE)
