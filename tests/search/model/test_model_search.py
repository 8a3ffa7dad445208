"""The searcher `model` on spaces of known shapes: where it starts, what it avoids, when it ends."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from skipjack.core import Config, Parameter, ParameterSpace, Status, Trial
from skipjack.learn.replay import RecordedSpace, evaluations_until, run_replay
from skipjack.search import SearchContext, create
from skipjack.testing.searchers import drive
from skipjack.testing.spaces import tiled_space, tiny_space

SIZES = (1, 2, 4, 8, 16, 32)


def cost_of(config: Config) -> float:
    """Parameters that interact: the best block is about as large as the tile times four."""
    tile, block, unroll = (math.log2(float(config[name])) for name in ("tile", "block", "unroll"))
    order = {"ijk": 0.6, "ikj": 0.0, "kij": 0.3}[str(config["order"])]
    return math.exp(0.3 * (block - tile - 2) ** 2 + 0.1 * (tile - 3) ** 2 + order + 0.05 * unroll)


def space(**more: Any) -> ParameterSpace:
    return ParameterSpace(
        [
            Parameter("tile", SIZES),
            Parameter("block", SIZES),
            Parameter("unroll", (1, 2, 4)),
            Parameter("order", ("ijk", "ikj", "kij")),
        ],
        **more,
    )


def recorded(fails: Callable[[Config], bool] = lambda config: False) -> RecordedSpace:
    configs = [
        Config(tile=tile, block=block, unroll=unroll, order=order)
        for tile, block, unroll, order in product(SIZES, SIZES, (1, 2, 4), ("ijk", "ikj", "kij"))
    ]
    return RecordedSpace([trial(c, fails) for c in configs], "made up")


def trial(config: Config, fails: Callable[[Config], bool] = lambda config: False) -> Trial:
    if fails(config):
        return Trial(config, Status.BUILD_ERROR, reason="made to fail")
    return Trial(config, value=cost_of(config))


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_best_of_324_configs_within_50(seed: int) -> None:
    made = recorded()
    run = run_replay(made, "model", 50, seed)
    assert evaluations_until(run.curve, made.optimum, 1.01) <= 50


def test_it_learns_which_configs_fail() -> None:
    made = recorded(lambda config: int(config["tile"]) * int(config["unroll"]) > 32)
    share = np.isinf(made.costs).mean()
    late = []
    for seed in range(3):
        run = run_replay(made, "model", 60, seed)
        assert evaluations_until(run.curve, made.optimum, 1.05) <= 60
        late += [made.costs[at] for at in run.asked[20:]]
    assert np.isinf(late).mean() < 0.7 * share


def test_runs_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    made = recorded()
    first, second = (run_replay(made, "model", 30, seed=5, batch=3) for _ in range(2))
    assert first == second
    assert first.asked != run_replay(made, "model", 30, seed=6, batch=3).asked


def test_a_rate_is_maximised() -> None:
    searcher = create("model", SearchContext(space(), trials=60))
    trials = drive(searcher, lambda config: Trial(config, value=-1e3 / cost_of(config)), 60)
    best = min(float(one.value or 0.0) for one in trials)
    assert best < -1e3 / 1.02 / min(map(cost_of, space().enumerate()))


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0])
def test_results_that_are_all_alike_are_no_problem(value: float) -> None:
    searcher = create("model", SearchContext(space(), trials=40))
    assert len(drive(searcher, lambda config: Trial(config, value=value), 40)) == 40


def test_it_goes_on_where_everything_fails() -> None:
    for made in (space(), space(order=cost_of)):
        searcher = create("model", SearchContext(made, trials=40))
        assert len(drive(searcher, lambda c: Trial(c, Status.BUILD_ERROR), 40)) == 40


def test_repeats_are_allowed_but_not_needed() -> None:
    searcher = create("model", SearchContext(tiny_space(), repeats=True, trials=20))
    trials = drive(searcher, lambda config: Trial(config, value=1.0), 20)
    assert len({one.config for one in trials}) == tiny_space().count()


def test_the_first_configs_are_far_from_each_other() -> None:
    searcher = create("model", SearchContext(space(), seed=1))
    asked = searcher.ask(5)
    assert len({one["order"] for one in asked}) == 3
    assert {one["tile"] for one in asked} >= {1, 32}


def test_it_starts_by_the_order_of_the_space() -> None:
    made = space(order=cost_of)
    searcher = create("model", SearchContext(made, trials=8))
    trials = drive(searcher, trial, 8, batch=1)
    assert trials[1].config == made.promising(1)[0]


def misleading(config: Config) -> float:
    return 1e3 / cost_of(config)


def test_it_recovers_from_an_order_that_misleads() -> None:
    searcher = create("model", SearchContext(space(order=misleading), trials=100))
    trials = drive(searcher, trial, 100, batch=1)
    best = min(map(cost_of, space().enumerate()))
    assert min(one.value for one in trials if one.value is not None) < 1.1 * best


def test_it_starts_by_the_score_of_a_trained_model() -> None:
    context = SearchContext(space(), trials=8, score=lambda config: math.log(cost_of(config)))
    trials = drive(create("model", context), trial, 8, batch=1)
    best = min(map(cost_of, space().enumerate()))
    assert trials[1].value == pytest.approx(best)


def shifted(config: Config) -> float:
    """Another device: smaller tiles are better."""
    return cost_of(config) * 2 ** (math.log2(float(config["tile"])) * 0.2)


@pytest.mark.parametrize("share", [1, 3])
def test_it_starts_from_prior_trials(share: int) -> None:
    configs = [*space().enumerate()][::share]
    least = min(map(shifted, configs))
    prior = tuple(Trial(config, value=shifted(config) / least) for config in configs)
    context = SearchContext(space(), trials=15, prior=prior)
    trials = drive(create("model", context), trial, 15, batch=1)
    best = min(map(cost_of, space().enumerate()))
    assert min(one.value for one in trials if one.value is not None) < 1.05 * best


def test_prior_trials_that_failed_come_last() -> None:
    prior = tuple(
        Trial(config, Status.CRASH) if config["order"] == "ikj" else Trial(config, value=1.0 + at)
        for at, config in enumerate(space().enumerate())
    )
    searcher = create("model", SearchContext(space(), prior=prior))
    asked = drive(searcher, trial, 6, batch=1)
    assert all(one.config["order"] != "ikj" for one in asked[1:3])


def test_prior_trials_of_another_space_are_ignored() -> None:
    prior = tuple(Trial(Config(other=at), value=1.0) for at in range(20))
    searcher = create("model", SearchContext(tiled_space(), prior=prior, trials=10))
    assert len(drive(searcher, lambda config: Trial(config, value=1.0), 10)) == 10


def test_a_space_that_is_too_large_to_list_is_searched_through_what_is_drawn() -> None:
    large = ParameterSpace([Parameter(f"p{at}", SIZES) for at in range(8)])
    assert large.count() > 20_000

    def evaluate(config: Config) -> Trial:
        off = sum((math.log2(float(value)) - 2) ** 2 for value in config.values())
        return Trial(config, value=math.exp(0.1 * off))

    trials = drive(create("model", SearchContext(large, trials=120)), evaluate, 120, batch=2)
    drawn = drive(create("random", SearchContext(large, trials=120)), evaluate, 120, batch=2)
    best, random = (min(float(one.value or 1e9) for one in each) for each in (trials, drawn))
    assert best < random


def test_many_trials_are_used_in_part() -> None:
    searcher = create("model", SearchContext(recorded(), seed=2))
    asked = drive(searcher, trial, 324, batch=8)
    assert len({one.config for one in asked}) == 324
    assert searcher.done
