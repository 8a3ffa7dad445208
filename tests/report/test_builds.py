"""The table of builds shows what was built, what was known, and what failed."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from skipjack.core import Config, Device, Status
from skipjack.gpu import ABI as GPU_ABI
from skipjack.operations import parse
from skipjack.report.tuning.results import print_builds
from skipjack.tuning import BuildResult, BuiltConfig

DEVICE = Device("cpu", "neoverse-n1", 1, features=("neon",))
BUILDS = (
    BuiltConfig(
        0, Config(tile=1), Status.OK, "", 0.0123, False, 44, 3, digest="a" * 64, data=b"x" * 99
    ),
    BuiltConfig(
        1, Config(tile=2), Status.OK, "", 0.0, True, 44, None, digest="a" * 64, data=b"x" * 99
    ),
    BuiltConfig(
        2, Config(tile=3), Status.OK, "", 0.0, True, 55, 0, digest="b" * 64, data=b"y" * 88
    ),
    BuiltConfig(3, Config(tile=4), Status.BUILD_ERROR, "no [such] instruction", 0.5),
)


def printed(width: int) -> list[str]:
    result = BuildResult(parse("add:8"), DEVICE, "nest", 1, "llvm", BUILDS, 1.25)
    stream = io.StringIO()
    print_builds([result], Console(file=stream, width=width))
    return stream.getvalue().splitlines()


def test_every_config_has_a_row() -> None:
    head, columns, _, *rows, reason = printed(150)
    assert head == (
        "add:8:f32 for neoverse-n1/1 by nest: 3 of 4 built in 1.2 s "
        "(aarch64-unknown-linux-gnu, 16-byte vectors)"
    )
    assert columns.split() == [
        "number",
        "config",
        "status",
        "build",
        "ms",
        "bytes",
        "code",
        "spills",
        "digest",
    ]
    assert [row.split() for row in rows] == [
        ["0", "tile=1", "ok", "12.3", "99", "44", "3", "a" * 12],
        ["1", "tile=2", "ok", "as", "0", "99", "44", "-", "a" * 12],
        ["2", "tile=3", "ok", "known", "88", "55", "0", "b" * 12],
        ["3", "tile=4", "build_error", "500.0", "-", "-", "-", "-"],
    ]
    assert reason == "  3: no [such] instruction"


def test_a_narrow_screen_cuts_no_number() -> None:
    text = "\n".join(printed(80))
    assert all(part in text for part in ("12.3", "known", "as 0", "a" * 12, "build_error"))


def test_a_gpus_builds_show_registers_shared_memory_and_spills() -> None:
    needs = {"registers": 158.0, "shared_bytes": 147480.0, "spill_bytes": 0.0, "binary_bytes": 9.0}
    built = BuiltConfig(
        0, Config(tile=1), Status.OK, "", 0.5, digest="a" * 64, data=b"x" * 99, abi=GPU_ABI
    )
    spilled = BuiltConfig(1, Config(tile=2), Status.INFEASIBLE, "spills", 0.25, abi=GPU_ABI)
    failed = BuiltConfig(2, Config(tile=3), Status.BUILD_ERROR, "no", 0.125)
    builds = (
        replace(built, resources=needs),
        replace(spilled, resources={**needs, "spill_bytes": 624.0}),
        failed,
    )
    device = Device("cuda", "sm_90", 132)
    result = BuildResult(parse("add:8"), device, "tiles", 1, "triton 3.6.0", builds, 1.25)
    stream = io.StringIO()
    print_builds([result], Console(file=stream, width=150))
    head, columns, _, *rows = stream.getvalue().splitlines()
    assert head == "add:8:f32 for sm_90/132 by tiles: 1 of 3 built in 1.2 s (triton 3.6.0)"
    assert columns.split()[-5:] == ["bytes", "registers", "shared", "spills", "digest"]
    assert [row.split() for row in rows[:3]] == [
        ["0", "tile=1", "ok", "500.0", "99", "158", "147480", "0", "a" * 12],
        ["1", "tile=2", "infeasible", "250.0", "-", "158", "147480", "624", "-"],
        ["2", "tile=3", "build_error", "125.0", "-", "-", "-", "-", "-"],
    ]
