"""Plans lead from any state of a game to a schedule."""

import numpy as np
import pytest

from skipjack.core import Nest
from skipjack.learn.loops import GameState, LoopGame, Preset
from skipjack.learn.training.planner import Planner
from skipjack.operations import get, parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits, ScheduleSpace

LIMITS = ScheduleLimits(lanes=16, registers=32, max_unrolled=512)


def nest_of(text: str) -> Nest:
    problem = parse(text)
    return get(problem.operation).nest(problem)  # type: ignore[attr-defined,no-any-return]


def full(text: str, threads: int = 1, streaming: bool = False) -> LoopGame:
    return LoopGame(nest_of(text), LIMITS, preset=Preset.FULL, threads=threads, streaming=streaming)


@pytest.mark.parametrize(
    ("problem", "target", "threads"),
    [
        ("matmul:192x208x256", "n:32 m:12 k m/u n/v", 1),
        ("matmul:192x208x256", "m:6/p n:48 k:64 k m/u n/v", 2),
        ("matmul:192x208x256", "k:36 n:64 m:4 k:4 k/u m/u n/v", 1),
        ("sum:512x300/axis=1", "i0:4 r1:64 i0/u r1/v", 1),
    ],
)
def test_a_plan_leads_to_its_schedule_and_stops(problem: str, target: str, threads: int) -> None:
    game = full(problem, threads)
    request = Schedule.parse(target)
    plan = Planner(game).plan(request)
    assert plan is not None
    state = game.start()
    for action, before in zip(plan.actions, plan.states[:-1], strict=True):
        assert state == before
        state = game.apply(state, action)
    assert state.schedule == request
    assert state.stopped
    assert len(plan.actions) < 32


def test_most_proposed_schedules_have_a_plan() -> None:
    for text in ("matmul:100x200x300", "sum:64x4096/axis=1", "add:100x1000"):
        game = full(text, threads=2)
        space = ScheduleSpace(game.nest, 16, threads=2)
        targets = [space.schedule(config) for config in space.promising(20)]
        plans = [Planner(game).plan(target) for target in targets]
        assert sum(plan is not None for plan in plans) >= 0.8 * len(plans)


def test_a_plan_leads_on_from_anywhere() -> None:
    game = full("matmul:96x96x96", threads=2)
    request = Schedule.parse("m:12/p n:32 k m/u n/v")
    rng = np.random.default_rng(0)
    for _ in range(60):
        state = game.start()
        for _ in range(int(rng.integers(15))):
            legal = np.flatnonzero(game.mask(state)[:-1])  # but not stop
            state = game.apply(state, int(rng.choice(legal)))
        plan = Planner(game).plan(request, state)
        assert plan is not None, state
        assert plan.states[-1].schedule == request


def test_in_the_preset_of_looptune_the_target_has_no_marks() -> None:
    game = LoopGame(nest_of("matmul:96x96x96"), LIMITS, preset=Preset.LOOPTUNE)
    request = Schedule.parse("m:4 n:32 k m n")
    plan = Planner(game).plan(request, GameState(Schedule.parse("m:4 n:32 m k n"), 4))
    assert plan is not None
    assert [game.actions[action] for action in plan.actions] == ["up", "swap_up"]


def test_a_step_that_no_factors_make_has_no_plan() -> None:
    assert Planner(full("matmul:96x96x96")).plan(Schedule.parse("m:11 m k n")) is None
