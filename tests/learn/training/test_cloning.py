"""What is demonstrated is learned: the actions of plans, and what schedules are worth."""

# ruff: noqa: E402
# Optional packages may be missing, so their imports are tried first.

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from planted import LIMITS, nest_of

from skipjack.learn.loops import LoopGame, Preset
from skipjack.learn.training import NetworkSizes
from skipjack.learn.training.cloning import (
    CloningOptions,
    clone,
    cloning_data,
    demonstrate,
    end_of,
    evaluate_clone,
)
from skipjack.learn.training.network import LoopNetwork
from skipjack.learn.training.planner import Planner
from skipjack.solvers.cpu.nest import Schedule

GAME = LoopGame(nest_of("matmul:64x64x64"), LIMITS, preset=Preset.FULL)
TARGET = Schedule.parse("m:4 n:16 k m/u n/v")


def test_a_demonstration_is_the_plan_and_a_detour_leads_back_to_it() -> None:
    rng = np.random.default_rng(0)
    plan = Planner(GAME).plan(TARGET)
    straight = demonstrate(GAME, TARGET, rng)
    assert plan is not None
    assert straight is not None
    assert tuple(straight.actions) == plan.actions
    around = [demonstrate(GAME, TARGET, rng, detours=0.3) for _ in range(8)]
    assert all(each is not None and each.actions[-1] == plan.actions[-1] for each in around)
    assert max(len(each.actions) for each in around if each) > len(plan.actions)
    assert demonstrate(GAME, Schedule.parse("m:11 m k n"), rng) is None


def test_a_network_learns_what_is_demonstrated_and_what_schedules_are_worth() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    shown = [demonstrate(GAME, TARGET, rng, detours=0.1) for _ in range(24)]
    ends = [(end_of(GAME, TARGET), 0.0), (end_of(GAME, GAME.start().schedule), -2.0)]
    taught = cloning_data([each for each in shown if each is not None], ends * 8)
    rows, machine = taught.views.rows.shape[2], taught.views.machine.shape[1]
    network = LoopNetwork(NetworkSizes(rows, machine, len(GAME.actions), width=16, trunk=32))
    before = evaluate_clone(network, taught)
    clone(network, taught, rng, CloningOptions(epochs=30, batch=64, learning_rate=5e-3))
    after = evaluate_clone(network, taught)
    assert before["right"] < 0.5 < 0.9 < after["right"]
    assert after["worth_error"] < 0.3 < before["worth_error"]
