"""Recorded spaces: every capability stays within what was recorded."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from skipjack.core import Config, Countable, Pinnable, Promising, Recombining, Status, Trial, Value
from skipjack.errors import SpaceError, UsageError
from skipjack.interop import TuningResults, write_kernel_tuner_cache, write_t4
from skipjack.learn.replay import (
    RandomBaseline,
    RecordedSpace,
    load_recording,
    log_ratios,
    performance_score,
    run_replay,
)
from skipjack.search import SearchContext, create
from skipjack.testing.searchers import drive
from skipjack.testing.spaces import CostSurface, tiled_space, tiny_space


def recorded(failure_rate: float = 0.1, **more: Value) -> RecordedSpace:
    space = tiled_space()
    surface = CostSurface(space, seed=4, failure_rate=failure_rate)
    trials = [surface.trial(config) for config in space.enumerate()]
    return RecordedSpace([_with(trial, **more) for trial in trials], "tiled", "ns")


def _with(trial: Trial, **more: Value) -> Trial:
    return Trial(trial.config.replace(**more), trial.status, trial.value)


SPACE = recorded(alignment=64)


def test_it_has_the_capabilities_of_a_parameter_space_except_an_order() -> None:
    assert isinstance(SPACE, Countable)
    assert isinstance(SPACE, Recombining)
    assert isinstance(SPACE, Pinnable)
    assert not isinstance(SPACE, Promising)


def test_every_recorded_config_is_in_it_and_no_other() -> None:
    configs = list(SPACE.enumerate())
    assert len(configs) == SPACE.count() == tiled_space().count()
    assert all(SPACE.contains(config) for config in configs)
    assert not SPACE.contains(configs[0].replace(tile_m=7))
    with pytest.raises(SpaceError, match="was not recorded"):
        SPACE.neighbours(configs[0].replace(tile_m=7))


def test_neighbours_are_those_of_the_parameter_space() -> None:
    parameters = tiled_space()
    rng = np.random.default_rng(1)
    for config in (parameters.sample(rng) for _ in range(20)):
        near = [one.replace(alignment=64) for one in parameters.neighbours(config)]
        found = SPACE.neighbours(config.replace(alignment=64))
        assert {one.key for one in found} == {one.key for one in near}
        assert len(found) == len(near)


def test_adjacent_values_come_first_among_neighbours() -> None:
    grid = [Trial(Config(a=a, b=b), value=1.0) for a, b in product((1, 2, 4, 8), repeat=2)]
    near = RecordedSpace(grid).neighbours(Config(a=2, b=1))
    assert [(one["a"], one["b"]) for one in near[:3]] == [(1, 1), (4, 1), (2, 2)]


def test_without_a_single_change_the_nearest_configs_are_neighbours() -> None:
    diagonal = [Trial(Config(a=at, b=at, c=1), value=1.0) for at in range(4)]
    near = RecordedSpace(diagonal).neighbours(Config(a=1, b=1, c=1))
    assert {one["a"] for one in near} == {0, 2, 3}


def test_children_and_mutants_were_recorded() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        first, second = SPACE.sample(rng), SPACE.sample(rng)
        child = SPACE.recombine(first, second, rng)
        assert SPACE.contains(child)
        assert all(child[name] in (first[name], second[name]) for name in child)
        mutant = SPACE.mutate(first, rng)
        assert SPACE.contains(mutant)
        assert mutant != first


def test_a_space_of_one_config_has_no_mutant() -> None:
    one = Config(a=1, b=2)
    space = RecordedSpace([Trial(one, value=1.0)])
    assert space.mutate(one, np.random.default_rng(0)) == one
    assert space.neighbours(one) == []


def test_features_are_those_of_parameters_without_the_constant_ones() -> None:
    config = next(tiled_space().enumerate())
    assert SPACE.features(config.replace(alignment=64)) == tiled_space().features(config)


def test_a_pinned_space_has_the_configs_with_the_setting() -> None:
    part = SPACE.pinned({"pack": True})
    assert isinstance(part, RecordedSpace)
    assert part.choices()["pack"] == (True,)
    assert 0 < part.count() < SPACE.count()
    with pytest.raises(SpaceError, match="no recorded config has tile_m=7"):
        SPACE.pinned({"tile_m": 7})


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ([], "has no trials"),
        ([Config(a=1), Config(a=1)], "has a config twice"),
        ([Config(a=1), Config(b=1)], "different parameters: a, and b"),
        ([Config(a=1, b=1), Config(a="x", b=1)], "values of the types int, str"),
        ([Config(schedule="m8 n4")], "are texts, such as schedules of loop nests"),
        ([Config({"a b": 1})], "'a b' needs a name"),
    ],
)
def test_what_cannot_be_a_space_is_refused(configs: list[Config], said: str) -> None:
    with pytest.raises(SpaceError, match=said):
        RecordedSpace([Trial(config, value=1.0) for config in configs])


def test_whole_and_other_numbers_of_a_parameter_become_one_type() -> None:
    space = RecordedSpace([Trial(Config(a=value), value=1.0) for value in (1, 0.5)])
    assert space.choices()["a"] == (0.5, 1.0)
    assert space.contains(Config(a=1.0))


# Replays


@pytest.mark.parametrize("name", ["random", "genetic", "hill_climbing", "simulated_annealing"])
def test_a_replay_evaluates_each_config_once_and_is_repeatable(name: str) -> None:
    run = run_replay(SPACE, name, 50, seed=3)
    assert run == run_replay(SPACE, name, 50, seed=3)
    assert len(run.asked) == len(set(run.asked)) == len(run.curve) == 50
    assert list(run.curve) == sorted(run.curve, reverse=True)
    assert run.curve[-1] == min(SPACE.costs[list(run.asked)])
    assert run != run_replay(SPACE, name, 50, seed=4)


def test_a_batch_is_told_after_all_of_it_was_asked() -> None:
    assert len(run_replay(SPACE, "genetic", 50, batch=16).asked) == 50


def test_a_budget_beyond_the_space_ends_with_the_optimum() -> None:
    surface = CostSurface(tiny_space())
    space = RecordedSpace([surface.trial(config) for config in tiny_space().enumerate()])
    run = run_replay(space, "genetic", 100)
    assert len(run.curve) == space.count()
    assert run.curve[-1] == space.optimum


def test_recordings_of_parameters_are_searched_like_their_space() -> None:
    """The recorded space differs from its parameters' only in where configs come from."""
    space = recorded(failure_rate=0.0)
    trials = drive(create("genetic", SearchContext(space, trials=80)), space.trial, 80)
    assert min(trial.value or np.inf for trial in trials) < space.costs.mean()


def test_the_best_configs_of_a_prior_recording_come_first() -> None:
    other = recorded(alignment=128).trials  # a constant that differs does not count
    run = run_replay(SPACE, "random", 10, prior=[other])
    assert run.curve[0] == SPACE.optimum
    doubled = [Trial(one.config, one.status, one.value and 2 * one.value) for one in other]
    assert run_replay(SPACE, "random", 10, prior=[doubled]).asked == run.asked


def test_prior_trials_with_other_parameters_or_values_are_left_out() -> None:
    foreign = [Trial(Config(x=1), value=1.0), _with(SPACE.trials[0], tile_m=7)]
    assert SPACE.usable_prior(foreign) == []
    run = run_replay(SPACE, "random", 10, prior=[foreign])
    assert len(run.asked) == 10


# Scores


def test_the_expectation_of_random_search_is_exact() -> None:
    values = [4.0, 2.0, 1.0, None]
    trials = [
        Trial(Config(a=at), value=value) if value else Trial(Config(a=at), Status.CRASH)
        for at, value in enumerate(values)
    ]
    baseline = RandomBaseline(RecordedSpace(trials), 4)
    logs = np.log([4.0, 2.0, 1.0, 4.0])
    subsets = [[i, j] for i in range(4) for j in range(i)]
    assert baseline.log_ratios[0] == pytest.approx(logs.mean())
    assert baseline.log_ratios[1] == pytest.approx(np.mean([logs[s].min() for s in subsets]))
    assert baseline.log_ratios[3] == pytest.approx(0.0)
    assert baseline.expected_evaluations(1.0) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert baseline.chance_within(1.0, 2) == pytest.approx(0.5)
    assert baseline.evaluations_for(float(baseline.log_ratios[1])) == 2


def test_random_search_scores_zero_and_the_optimum_one() -> None:
    space = recorded()
    baseline = RandomBaseline(space, 40)
    assert performance_score(baseline.log_ratios, baseline) == pytest.approx(0.0)
    best = log_ratios([space.optimum] * 40, baseline)
    assert performance_score(best, baseline) == pytest.approx(1.0)
    runs = [run_replay(space, "random", 40, seed) for seed in range(100)]
    mean = np.mean([log_ratios(run.curve, baseline) for run in runs], axis=0)
    assert abs(performance_score(mean, baseline)) < 0.15


# Files


def test_a_recording_is_read_from_a_t4_file_or_a_cache(tmp_path: Path) -> None:
    results = TuningResults(SPACE.trials, unit="ms")
    write_t4(tmp_path / "conv_T4.json.gz", results)
    write_kernel_tuner_cache(tmp_path / "conv.json", results)
    read = [load_recording(tmp_path / name) for name in ("conv_T4.json.gz", "conv.json")]
    assert [(one.name, one.unit, one.count()) for one in read] == 2 * [
        ("conv", "ms", SPACE.count())
    ]
    assert (read[0].costs == read[1].costs).all()
    with pytest.raises(UsageError, match="is not a ledger"):
        load_recording(tmp_path / "conv.json", problem="matmul:8x8x8")
