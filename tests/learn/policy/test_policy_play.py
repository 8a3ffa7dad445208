"""How a policy plays, and the searcher that asks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_policy_files import arrays

from cpus import HASWELL
from skipjack.core import Config, Device, Space
from skipjack.errors import UsageError
from skipjack.learn.costs import shipped_model
from skipjack.learn.loops import LoopGame, Preset, loop_game
from skipjack.learn.policy import (
    ANALYTIC,
    EvaluationScope,
    Policy,
    PolicyNetwork,
    best_schedules,
    built_in,
    evaluation_scope,
    greedy,
    planned,
    play,
    proposals,
    read_policy,
    searcher,
    write_policy,
)
from skipjack.learn.policy.built_in import scopes_led
from skipjack.operations import parse
from skipjack.search import SearchContext, Searcher, applicable_searcher, create
from skipjack.solvers import find_solver
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace
from skipjack.testing.searchers import SearcherConformance
from skipjack.testing.spaces import tiny_space

PROBLEM = parse("matmul:48x40x56")
GAME = loop_game(PROBLEM, HASWELL, Preset.FULL)
SPACE = find_solver("nest").space(PROBLEM, HASWELL)
assert isinstance(SPACE, ScheduleSpace)


def random_policy(preset: Preset = Preset.FULL) -> Policy:
    return Policy(PolicyNetwork(arrays(preset)), preset, "random")


def test_a_greedy_game_is_legal_and_ends() -> None:
    played = greedy(random_policy(), GAME)
    state = GAME.start()
    for action in played.actions:
        assert GAME.mask(state)[action]
        state = GAME.apply(state, action)
    assert state == played.state
    assert played.schedule == state.schedule
    assert SPACE.contains(Config(schedule=played.schedule.text()))
    assert len(greedy(random_policy(), GAME, 3).actions) <= 3


def test_a_game_of_looptune_has_ten_actions() -> None:
    game = loop_game(PROBLEM, HASWELL, Preset.LOOPTUNE)
    played = greedy(random_policy(Preset.LOOPTUNE), game)
    assert len(played.actions) == 10
    assert played.schedule == game.built(played.state)


@pytest.mark.parametrize("preset", Preset)
def test_proposals_are_distinct_and_begin_with_the_greedy_game(preset: Preset) -> None:
    policy, game = random_policy(preset), loop_game(PROBLEM, HASWELL, preset)
    found = proposals(policy, game, 12)
    assert len({each.schedule for each in found}) == len(found) == 12
    assert found[0].schedule == greedy(policy, game).schedule
    ended = [each.log_probability for each in found[1:] if each.state.stopped]
    assert ended == sorted(ended, reverse=True)
    assert [each.schedule for each in proposals(policy, game, 12)] == [x.schedule for x in found]
    assert proposals(policy, game, 0) == []


def test_a_nest_without_loops_is_played() -> None:
    game = loop_game(parse("add:1"), HASWELL, Preset.FULL)
    assert greedy(random_policy(), game).schedule.loops == ()


@pytest.fixture
def with_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A random policy in the place of the one that comes with Skipjack."""
    write_policy(tmp_path / "full.npz", arrays(), Preset.FULL)
    monkeypatch.setattr(built_in, "FOLDER", tmp_path)
    monkeypatch.setattr(built_in, "FOLDER", tmp_path)
    monkeypatch.setattr(searcher, "shipped", built_in.shipped.__wrapped__)
    return tmp_path


def test_what_is_planned_is_played_and_ordered_by_the_cost_model() -> None:
    policy = random_policy()
    games = {each.schedule for each in proposals(policy, GAME, 32)}
    best = planned(policy, GAME, 5)
    assert len({each.schedule for each in best}) == 5
    assert {each.schedule for each in best} <= games
    model = shipped_model()
    costs = model.log_seconds_in(GAME, [each.schedule for each in best])
    assert costs == sorted(model.log_seconds_in(GAME, list(games)))[:5]
    assert planned(policy, GAME, 1) == best[:1]
    assert planned(policy, GAME, 0) == []


def test_in_looptune_the_model_leads_to_schedules_and_the_policy_where_it_is_sure() -> None:
    game = loop_game(PROBLEM, HASWELL, Preset.LOOPTUNE)
    policy = random_policy(Preset.LOOPTUNE)
    found = planned(policy, game, 500)
    assert len({each.schedule for each in found}) == len(found) > 100
    costs = shipped_model(Preset.LOOPTUNE).log_seconds_in(game, [x.schedule for x in found])
    assert costs == sorted(costs)
    assert greedy(policy, game).schedule in {each.schedule for each in found}
    for each in found[:20]:
        state = game.start()
        for action in each.actions:
            state = game.apply(state, action)
        assert len(each.actions) <= 10
        assert (state, game.built(state)) == (each.state, each.schedule)
    likely = {each.schedule for each in proposals(policy, game, 32)}
    assert costs[0] <= min(shipped_model(Preset.LOOPTUNE).log_seconds_in(game, list(likely)))
    assert planned(policy, game, 1) == found[:1]
    assert [each.schedule for each in planned(policy, game, 9, 0)] == [game.built(game.start())]


def test_a_nest_of_looptune_without_loops_is_planned() -> None:
    game = loop_game(parse("add:1"), HASWELL, Preset.LOOPTUNE)
    (played,) = planned(random_policy(Preset.LOOPTUNE), game, 3)
    assert played.schedule.loops == ()


def test_what_the_model_does_not_tell_apart_is_taken_in_the_analytic_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Undecided:
        def log_seconds_in(self, game: LoopGame, schedules: Sequence[Schedule]) -> list[float]:
            return [0.0] * len(schedules)

    class Sure(Undecided):
        def log_seconds_in(self, game: LoopGame, schedules: Sequence[Schedule]) -> list[float]:
            return [-9.0 if one == played else 0.0 for one in schedules]

    policy = random_policy()
    played = proposals(policy, GAME, 32)[-1].schedule
    analytic = [SPACE.schedule(config) for config in SPACE.promising(6)]
    monkeypatch.setattr(play, "shipped_model", Undecided)
    assert best_schedules(policy, GAME, analytic, 6) == analytic
    monkeypatch.setattr(play, "shipped_model", Sure)
    assert best_schedules(policy, GAME, analytic, 3) == [played, *analytic[:2]]


def context(space: Space = SPACE, device: Device = HASWELL, **more: Any) -> SearchContext:
    return SearchContext(space, problem=PROBLEM, device=device, **more)


@pytest.mark.usefixtures("with_policy")
def test_the_searcher_asks_for_the_proposals_first() -> None:
    asked = create("policy", context(trials=20)).ask(4)
    policy = searcher.shipped(Preset.FULL)
    analytic = [SPACE.schedule(config) for config in SPACE.promising(ANALYTIC)]
    found = best_schedules(policy, GAME, analytic, 16)
    wanted = [Config(schedule=each.text()) for each in found]
    default = SPACE.default()
    assert [config for config in asked if config != default] == [
        config for config in wanted if config != default
    ][: len(asked) - (default in asked)]
    assert asked[0] == wanted[0]


@pytest.mark.usefixtures("with_policy")
def test_winners_of_similar_problems_stay_and_analytic_proposals_are_not_tried_twice() -> None:
    analytic = SPACE.promising(40)
    winners = (analytic[30], SPACE.sample(np.random.default_rng(1)))
    given = (*winners, *analytic[:16])
    assert searcher._without_tail(given, analytic) == winners
    assert searcher._without_tail(winners[:1], analytic) == ()  # nobody can tell them apart here
    assert searcher._without_tail((), analytic) == ()
    asked = create("policy", context(trials=60, seeds=given)).ask(16)
    assert set(winners) <= set(asked)


@pytest.mark.usefixtures("with_policy")
class TestPolicySearcher(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("policy", context)

    def space(self) -> ScheduleSpace:
        space = find_solver("nest").space(PROBLEM, HASWELL)
        assert isinstance(space, ScheduleSpace)
        return space

    def tiny(self) -> ScheduleSpace:
        space = find_solver("nest").space(parse("add:5"), HASWELL)
        assert isinstance(space, ScheduleSpace)
        return space

    def context(self, space: Space, **more: Any) -> SearchContext:
        return context(space, **more)

    def test_the_default_and_the_seeds_come_first(self) -> None:
        """Behind what the policy proposes; two of that go before the default."""
        space = self.space()
        seeds = (space.sample(np.random.default_rng(3)), space.sample(np.random.default_rng(4)))
        asked = create("policy:proposed=3", self.context(space, trials=40, seeds=seeds)).ask(6)
        assert asked[2] == space.default()
        assert tuple(asked[4:]) == seeds


@pytest.mark.usefixtures("with_policy")
def test_what_the_policy_does_not_play_goes_to_the_usual_searcher() -> None:
    assert applicable_searcher("policy", context()) == ("policy", "")
    assert applicable_searcher("policy:proposed=4", context()) == ("policy:proposed=4", "")
    name, reason = applicable_searcher("policy", context(tiny_space()))
    assert name == "exhaustive"
    assert reason == "its configs are not schedules of loops; the policy schedules only loop nests"
    gpu = Device("cuda", "sm_90", 132)
    assert (
        "loops can be scheduled for CPUs, not for"
        in applicable_searcher("policy", context(device=gpu))[1]
    )
    assert applicable_searcher("genetic", context()) == ("genetic", "")
    with pytest.raises(UsageError, match="this search has no problem"):
        create("policy", SearchContext(SPACE))


def test_without_a_policy_the_usual_searcher_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built_in, "FOLDER", tmp_path)
    monkeypatch.setattr(searcher, "shipped", built_in.shipped.__wrapped__)
    name, reason = applicable_searcher("policy", context())
    assert name == "genetic"
    assert "has no policy" in reason
    with pytest.raises(UsageError, match=r"policy absent.npz cannot be read"):
        applicable_searcher("policy:file=absent.npz", context())


def test_auto_takes_the_policy_where_an_evaluation_of_it_says_so(with_policy: Path) -> None:
    import json

    assert applicable_searcher("auto", context()) == ("genetic", "")
    file = with_policy / "evaluation.json"
    found = built_in.evidence(
        [evaluation_scope(PROBLEM, HASWELL)], with_policy / "full.npz", "a test"
    )
    file.write_text(json.dumps(found))
    scopes_led.cache_clear()
    assert scopes_led(with_policy) == {EvaluationScope("products", HASWELL.vector_bytes, False)}
    assert applicable_searcher("auto", context()) == ("policy", "")
    weights = arrays()
    weights["worth.bias"] = np.ones(1, np.float32)
    write_policy(with_policy / "full.npz", weights, Preset.FULL)
    scopes_led.cache_clear()
    assert applicable_searcher("auto", context()) == ("genetic", "")


def test_a_policy_of_a_users_own_is_named_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    write_policy(path, arrays(), Preset.FULL)
    assert read_policy(path).preset is Preset.FULL
    asked = create(f"policy:file={path}", context(trials=8)).ask(8)
    assert len(asked) == 8
    path.rename(tmp_path / "policy.npz")  # as the folder of a training run has it
    assert create(f"policy:file={tmp_path}", context(trials=8)).ask(8) == asked
    write_policy(path, arrays(Preset.LOOPTUNE), Preset.LOOPTUNE)
    assert "plays the preset looptune" in applicable_searcher(f"policy:file={path}", context())[1]
