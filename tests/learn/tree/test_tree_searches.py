"""Searches of the game: budgets, seeds, what each can find, and that none beats the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from planted_rates import PROBLEM, PlantedRates, scattered, small_game

from skipjack.errors import UsageError
from skipjack.learn.loops import GameState, LoopGame, Preset
from skipjack.learn.policy import Policy
from skipjack.learn.tree import (
    METHODS,
    GamePath,
    MeasuringCosts,
    Method,
    SearchBudget,
    SearchRun,
    all_methods,
    mcts,
    method_of,
    play,
    run_search,
)
from skipjack.solvers.cpu.nest import Schedule

EVERY = [*all_methods(), method_of("beam_dfs", width=2, lookahead=2), method_of("exhaustive")]
PRESETS = pytest.mark.parametrize("preset", Preset)
METHOD = pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)


def searched(
    method: Method, rates: PlantedRates, game: LoopGame | None = None, seed: int = 0, **budget: int
) -> SearchRun:
    return run_search(
        PROBLEM, game or small_game(), rates, method, SearchBudget(**budget), seed=seed
    )


def actions(game: LoopGame, text: str) -> list[int]:
    return [game.number(name) for name in text.split(",")]


def dip_then_peak(game: LoopGame, text: str) -> PlantedRates:
    """All is slower than the start but the end of a path; that path is less slow than the rest."""
    path = actions(game, text)
    slopes = [game.built(play(game, path[:n]).state) for n in range(1, len(path) + 1)]
    seconds = {schedule: 2.0 - 0.01 * n for n, schedule in enumerate(slopes)}
    seconds[game.built(game.start())] = 1.0
    seconds[slopes[-1]] = 0.1
    return PlantedRates(lambda schedule: seconds.get(schedule, 9.0))


DIPS = (
    "split_4,down,swap_down,down,split_16,swap_up,swap_up",  # what LoopTune's policy learned
    "swap_down,split_16,down,swap_down,up,split_4",
)


@pytest.mark.parametrize("dip", DIPS)
def test_a_beam_finds_an_optimum_behind_slower_schedules_and_greedy_does_not(dip: str) -> None:
    game = small_game()
    rates = dip_then_peak(game, dip)
    for kind, width in (("beam", 2), ("beam", 4), ("beam_dfs", 2)):
        run = searched(method_of(kind, width=width), rates, game, measurements=2000)
        assert run.gain == pytest.approx(10.0), run.search
    for ahead in (1, 2):
        assert searched(method_of("greedy", lookahead=ahead), rates, game).gain == 1.0


def test_a_beam_crosses_moves_of_the_cursor_which_change_no_time() -> None:
    """The start is faster than all but a schedule that the cursor has to go down twice for."""
    game = small_game()
    fast = game.built(play(game, actions(game, "down,down,split_8,swap_up")).state)
    assert fast != game.built(game.start())
    start = game.built(game.start())
    before = game.built(play(game, actions(game, "down,down,split_8")).state)
    seconds = {start: 1.0, before: 1.5, fast: 0.5}
    rates = PlantedRates(lambda schedule: seconds.get(schedule, 9.0))
    for kind in ("beam", "beam_dfs"):
        assert searched(method_of(kind, width=2), rates, game, measurements=400).gain == 2.0
    assert searched(method_of("greedy", lookahead=2), rates, game).gain == 2.0
    assert searched(method_of("greedy"), rates, game).gain == 1.0


@METHOD
@PRESETS
def test_every_search_stays_within_its_budget(method: Method, preset: Preset) -> None:
    for most in (1, 7, 60):
        rates = PlantedRates(scattered)
        run = searched(method, rates, small_game(preset), measurements=most, actions=6)
        assert rates.measured == len(rates.asked) == run.measured <= most
        assert all(len(step.actions) <= 6 for step in run.steps)
        assert not run.interrupted


@METHOD
def test_the_same_seed_gives_the_same_steps(method: Method) -> None:
    def steps(seed: int) -> list[tuple[object, ...]]:
        run = searched(method, PlantedRates(scattered), seed=seed, measurements=50)
        return [(step.actions, step.schedule, step.seconds, step.cached) for step in run.steps]

    assert steps(3) == steps(3)


@pytest.mark.parametrize("kind", ["random", "genetic", "annealing", "mcts"])
def test_another_seed_gives_other_steps(kind: str) -> None:
    runs = [
        searched(method_of(kind), PlantedRates(scattered), seed=seed, measurements=40)
        for seed in (1, 2)
    ]
    assert runs[0].steps != runs[1].steps


@PRESETS
def test_nothing_beats_the_exhaustive_search(preset: Preset) -> None:
    game = small_game(preset)
    rates = PlantedRates(scattered)
    budget = SearchBudget(measurements=None, actions=3)
    oracle = run_search(PROBLEM, game, rates, method_of("exhaustive"), budget)
    assert oracle.measured > 30
    for method in all_methods():
        run = run_search(PROBLEM, game, rates, method, SearchBudget(40, 3))
        assert run.gain <= oracle.gain
        assert {step.schedule for step in run.steps} <= {step.schedule for step in oracle.steps}


@pytest.mark.parametrize("kind", ["random", "genetic", "annealing", "mcts"])
def test_a_search_of_a_small_tree_ends_with_its_optimum(kind: str) -> None:
    """Without a limit on measurements it ends when it meets nothing new any more."""
    rates = PlantedRates(scattered)
    budget = SearchBudget(measurements=None, actions=2)
    oracle = run_search(PROBLEM, small_game(), rates, method_of("exhaustive"), budget)
    run = run_search(PROBLEM, small_game(), rates, method_of(kind), budget)
    assert run.gain == oracle.gain


@METHOD
def test_steps_can_be_played_again(method: Method) -> None:
    game = small_game()
    run = searched(method, PlantedRates(scattered), game, measurements=40)
    known: set[str] = set()
    best = math.inf
    for number, step in enumerate(run.steps):
        state = play(game, [game.number(name) for name in step.actions]).state
        assert (step.step, step.cursor) == (number, state.cursor)
        assert step.schedule == game.built(state).text()
        assert step.cached is (step.schedule in known)
        assert step.seconds == scattered(Schedule.parse(step.schedule))
        known.add(step.schedule)
        best = min(best, step.seconds or math.inf)
        assert step.measured == len(known)
        assert (step.best_s or math.inf) == best
    assert run.steps[0].actions == ()


def test_schedules_that_fail_are_steps_and_no_results() -> None:
    start = small_game().built(small_game().start())
    rates = PlantedRates(lambda schedule: 1.0 if schedule == start else None)
    for method in EVERY:
        run = searched(method, rates, measurements=30)
        assert run.best is not None
        assert run.gain == 1.0


def test_a_search_that_is_stopped_keeps_what_it_found_and_goes_on_when_run_again() -> None:
    rates = PlantedRates(scattered)
    game, method = small_game(), method_of("beam", width=2)
    stopped = run_search(PROBLEM, game, rates, method, stop=lambda: len(rates.asked) > 30)
    assert stopped.interrupted
    assert stopped.best is not None
    whole = run_search(PROBLEM, game, rates, method)
    count = len(stopped.steps)
    same = [(step.actions, step.seconds) for step in whole.steps[:count]]
    assert same == [(step.actions, step.seconds) for step in stopped.steps]
    assert len(whole.steps) > count


def test_a_search_ends_when_its_seconds_are_over() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.25
        return now

    budget = SearchBudget(measurements=None, actions=10, seconds=60.0)
    rates = PlantedRates(scattered)
    run = run_search(PROBLEM, small_game(), rates, method_of("random"), budget, clock=clock)
    assert 0 < run.elapsed_s < 65.0


def test_measurements_that_another_search_made_are_charged_all_the_same() -> None:
    """Or else whoever comes second in a comparison would seem to be quick."""
    now = 0.0
    known: set[Schedule] = set()

    def slowly(schedule: Schedule) -> float | None:
        nonlocal now
        now += 0.0 if schedule in known else 1.0
        known.add(schedule)
        return scattered(schedule)

    costs: MeasuringCosts = {}
    for _ in range(2):
        run = run_search(
            PROBLEM, small_game(), PlantedRates(slowly), method_of("random"), SearchBudget(40),
            costs=costs, clock=lambda: now,
        )  # fmt: skip
        assert run.elapsed_s == pytest.approx(40.0)
    assert now == 40.0


def test_a_prior_guides_the_tree_search() -> None:
    game = small_game(Preset.FULL)
    path = actions(game, "down,down,split_8,swap_up,down,vectorize")

    def prior(game: LoopGame, so_far: GamePath) -> np.ndarray:
        weights = np.zeros(len(game.actions))
        for length, action in enumerate(path):
            if play(game, path[:length]) == so_far:
                weights[action] = 1.0
        return weights

    fast = game.built(play(game, path).state)
    rates = PlantedRates(lambda schedule: 0.5 if schedule == fast else 1.0)
    guided = searched(Method("guided", mcts(prior)), rates, game, measurements=12)
    assert guided.gain == 2.0
    assert searched(method_of("mcts"), rates, game, measurements=12).gain == 1.0


def test_the_recipe_makes_a_tile_that_stays_in_registers() -> None:
    texts = {
        preset: searched(
            method_of("recipe"), PlantedRates(scattered), small_game(preset), actions=20
        )
        .steps[-1]
        .schedule
        for preset in Preset
    }
    assert texts == {
        Preset.LOOPTUNE: "m:4 n:16 k m/u n/v",
        Preset.FULL: "m:4 n:16 k m/u n/v",
    }


def test_gains_per_action_are_those_of_the_best_path() -> None:
    game = small_game()
    run = searched(method_of("beam", width=2), dip_then_peak(game, DIPS[0]), game, measurements=400)
    gains = run.gains_per_action()
    assert len(gains) == len(run.best.actions) + 1
    assert (gains[0], gains[-1]) == (1.0, pytest.approx(10.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "depth"}, "unknown search 'depth'; choose from greedy"),
        ({"kind": "random", "width": 2}, "the search random has no width; beam and beam_dfs have"),
        ({"kind": "genetic", "lookahead": 2}, "has no lookahead; greedy"),
        ({"kind": "beam", "width": 0}, "the width must be at least 1, not 0"),
        ({"kind": "beam", "policy": object()}, "does not use a policy; mcts and policy do"),
        ({"kind": "policy"}, "the search policy needs a policy"),
    ],
)
def test_a_search_that_there_is_not_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        method_of(**arguments)


def test_every_kind_of_search_is_in_a_comparison_but_the_exhaustive() -> None:
    names = {method.name.split("-")[0] for method in all_methods()}
    assert names == METHODS.keys() - {"exhaustive", "policy"}


class LikesOneAction:
    """A network that finds one action likeliest in every state."""

    def __init__(self, game: LoopGame, name: str) -> None:
        self._logits = np.zeros(len(game.actions), dtype=np.float32)
        self._logits[game.number(name)] = 50.0

    def forward(self, *_: object) -> tuple[np.ndarray, float]:
        return self._logits, 0.0

    def forward_many(self, loops: np.ndarray, *_: object) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([self._logits] * len(loops)), np.zeros(len(loops))


def test_a_policy_is_a_search_and_the_prior_of_one() -> None:
    game = small_game()
    policy = Policy(LikesOneAction(game, "split_8"), Preset.LOOPTUNE, "a test's")
    after = game.built(play(game, actions(game, "split_8")).state).text()
    for kind in ("policy", "mcts"):
        run = searched(
            method_of(kind, policy=policy),
            PlantedRates(scattered),
            game,
            measurements=40,
            actions=1,
        )
        # The search takes the policy's games in the order of the cost model.
        found = [step.schedule for step in run.steps]
        assert after in found if kind == "policy" else found[1] == after
        assert run.measured <= 40
    names = [method.name for method in all_methods(policy)]
    assert names[-2:] == ["mcts-policy", "policy"]


@pytest.mark.parametrize("kind", ["greedy", "beam", "beam_dfs"])
def test_what_the_budget_does_not_reach_is_not_worked_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played, own = [], LoopGame.apply

    def counted(game: LoopGame, state: GameState, action: int) -> GameState:
        played.append(action)
        return own(game, state, action)

    monkeypatch.setattr(LoopGame, "apply", counted)
    method = method_of(kind, lookahead=12)
    run = searched(method, PlantedRates(scattered), measurements=20, actions=12)
    assert run.measured == 20
    assert len(played) < 500


def test_a_search_of_endless_actions_is_refused() -> None:
    with pytest.raises(UsageError, match="must be from 1 to 1000, not 100000"):
        SearchBudget(actions=100_000)
