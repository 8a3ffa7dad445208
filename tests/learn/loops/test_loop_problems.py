"""Which problems are games of loops, and on which nest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skipjack.core import Device, NestOperation
from skipjack.devices import describe
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopGame, Preset, loop_game
from skipjack.operations import get, names, parse

CPU = Device(
    "cpu", "haswell", 1, vector_bytes=32, caches=(("L1", 1 << 15), ("L2", 1 << 18), ("L3", 1 << 23))
)


def game_of(key: str, device: Device = CPU) -> LoopGame:
    return loop_game(parse(key), device, Preset.FULL)


def test_every_operation_that_is_a_single_nest_is_a_game() -> None:
    single = [name for name in names() if isinstance(get(name), NestOperation)]
    assert len(single) >= 33
    for name in single:
        game = game_of(get(name).example)
        assert game.mask(game.start()).any(), name


def test_the_limits_are_those_of_the_device_and_the_dtype() -> None:
    narrow, wide = game_of("matmul:64x64x64:f64"), game_of("matmul:64x64x64")
    assert (narrow.limits.lanes, wide.limits.lanes) == (4, 8)
    assert wide.limits.registers == 16
    assert wide.machine.caches == (1 << 15, 1 << 18, 1 << 23)
    assert not wide.streaming
    assert game_of("add:4096x4096").streaming


@pytest.mark.parametrize("direction", ["fwd", "wrw"])
def test_a_convolution_is_a_game_on_the_nest_between_its_copies(direction: str) -> None:
    game = game_of(f"conv2d:n2c32h14w14k32y3x3p1q1:f32:NHWC:{direction}")
    names_ = {name for name, _ in game.nest.loops}
    assert {"n", "p", "q", "y", "x", "v"} <= names_
    assert game.start().schedule.loops[-1].variable == "v"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("softmax:64x64", "not a single loop nest"),
        ("layernorm:64x64", "not a single loop nest"),
        ("batchnorm:n8c16h8w8", "batchnorm"),
        ("matmul:64x64x64:f16", "f32 and f64, not in f16"),
        ("conv2d:n2c32h14w14k32y3x3p1q1:f32:NHWC:bwd", "several loop nests"),
    ],
)
def test_what_is_no_game_is_refused_with_the_reason(key: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be played: .*{reason}"):
        game_of(key)


def test_kernels_of_gpus_are_no_games() -> None:
    with pytest.raises(UsageError, match="for CPUs, not for sm_90/132"):
        game_of("matmul:64x64x64", describe("sm_90/132"))


def test_importing_games_loads_no_compiler_no_engine_and_no_library_for_learning() -> None:
    code = "import sys, skipjack.learn.loops; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"llvmlite", "torch", "gymnasium", "sqlalchemy", "ray", "networkx"}
    assert not modules & {"skipjack.execute", "skipjack.tuning", "skipjack.ledger"}
