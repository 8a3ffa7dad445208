"""Heuristics: a portfolio and trees that say which of its configs is fast, without measuring."""

from pathlib import Path

import numpy as np
import pytest

from modelled_trials import DEVICE, problems, time_of, trials_of
from skipjack.core import Config
from skipjack.errors import MalformedError, UsageError
from skipjack.learn.heuristic import (
    FIRST,
    HEURISTIC,
    SEARCHED,
    Folds,
    HeuristicOptions,
    finished,
    fit_heuristic,
    interval,
    is_better,
    named_configs,
    shape_folds,
    summarized,
    summarized_way,
    varied,
)
from skipjack.learn.ranker import fit_ranker, problem_rows
from skipjack.models import (
    ConfigHeuristic,
    PortfolioMember,
    SymmetricOptions,
    heuristic_features,
)
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import AdaptedConfigs

SMALL = HeuristicOptions(
    members=12, offered=40, drawn=2, deciding=20, trees=SymmetricOptions(trees=60, depth=4)
)


@pytest.fixture(scope="module")
def heuristic() -> ConfigHeuristic:
    trials = [trials_of(problem) for problem in problems(24)]
    ranker = fit_ranker([part for one in trials for part in problem_rows(one)])
    return fit_heuristic(trials, ranker, SMALL, card={"made": "by a test"})


def first_config(heuristic: ConfigHeuristic, key: str) -> Config:
    problem = parse(key)
    legal = AdaptedConfigs(problem, DEVICE)
    for ranked in heuristic.rank(problem, DEVICE):
        config = legal.config(ranked.member.solver, ranked.member.config)
        if config is not None:
            return config
    raise AssertionError("no member is legal")


def test_its_first_config_is_near_the_best_of_problems_it_never_saw(
    heuristic: ConfigHeuristic,
) -> None:
    found, median = [], []
    for problem in problems(12, seed=9):
        times = sorted(one.time_ns for one in trials_of(problem).successful)
        time = time_of(problem, first_config(heuristic, problem.key))
        found.append(times[0] / time)
        median.append(times[0] / times[len(times) // 2])
    assert np.mean(found) > np.mean(median)
    assert np.mean(found) > 0.8


def test_its_members_are_ranked_by_what_is_expected(heuristic: ConfigHeuristic) -> None:
    ranked = heuristic.rank(parse("matmul:300x200x100"), DEVICE)
    assert len(ranked) == len(heuristic.members)
    assert [one.behind for one in ranked] == sorted(one.behind for one in ranked)


def test_it_is_not_confident_about_sizes_far_from_those_it_knows(
    heuristic: ConfigHeuristic,
) -> None:
    near = heuristic_features(parse("matmul:100x100x100"), DEVICE)
    far = heuristic_features(parse("matmul:9000x9000x9000"), DEVICE)
    assert heuristic.confidence(near, 0.0) > 0.0
    assert heuristic.confidence(far, 0.0) == 0.0


@pytest.mark.parametrize("key", ["matmul:64x64x64:f64", "matmul:64x64x64/tb=1", "add:64"])
def test_it_does_not_apply_to_other_kinds_of_problems(heuristic: ConfigHeuristic, key: str) -> None:
    assert heuristic.applies(parse("matmul:64x64x64"), DEVICE)
    assert not heuristic.applies(parse(key), DEVICE)
    assert not heuristic.applies(parse("matmul:64x64x64"), describe("haswell/2"))


def test_a_file_gives_the_same_answers(heuristic: ConfigHeuristic, tmp_path: Path) -> None:
    path = tmp_path / "heuristic.npz"
    heuristic.save(path)
    read = ConfigHeuristic.read(path.read_bytes(), str(path))
    assert read.members == heuristic.members
    assert read.card == heuristic.card
    for problem in problems(5, seed=4):
        before, after = heuristic.rank(problem, DEVICE), read.rank(problem, DEVICE)
        assert [one.behind for one in after] == pytest.approx(
            [one.behind for one in before], abs=0.02
        )


@pytest.mark.parametrize("cut", [0, 100, -1])
def test_a_damaged_file_is_named(heuristic: ConfigHeuristic, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "heuristic.npz"
    heuristic.save(path)
    with pytest.raises(MalformedError, match="that file"):
        ConfigHeuristic.read(path.read_bytes()[:cut], "that file")


def test_features_of_training_and_of_programs_are_the_same(heuristic: ConfigHeuristic) -> None:
    problem = parse("matmul:123x45x67")
    row = heuristic_features(problem, DEVICE)
    assert row.shape == heuristic.low.shape
    assert (row == heuristic_features(parse(problem.key), describe(DEVICE.name))).all()


def test_drawn_problems_are_of_the_kinds_of_known_ones() -> None:
    known = [
        parse("matmul:64x64x64/tb=1"),
        parse("conv2d:n1c32h28w28k32y3x3p1q1g32"),
        parse("conv2d:n1c3h224w224k64y7x7p3q3u2v2:f32:NHWC:fwd"),
    ]
    drawn = list(varied(known, 14))
    assert len(drawn) == 42
    assert not set(drawn) & set(known)
    kinds = {(one.operation, one.layout, one.attributes) for one in known}
    assert {(one.operation, one.layout, one.attributes) for one in drawn} == kinds


def test_a_problem_held_out_has_a_config_of_each_way() -> None:
    trials = [trials_of(problem) for problem in problems(20)]
    folds = Folds(trials, shape_folds(trials), 2)
    held = folds.evaluate(SMALL, only_measured=True)
    assert sorted(one.trials.problem.key for one in held) == sorted(
        one.problem.key for one in trials
    )
    for one in held:
        assert one.measured_quality(SEARCHED) == 1.0
        assert FIRST in one.picks
        assert one.measured_quality(HEURISTIC) is not None
    better, low, high = is_better(held, SEARCHED)
    assert not better
    assert low <= high <= 0.0
    calibrated = finished(folds.fit(trials, SMALL), held).calibration
    assert (np.diff(calibrated[:, 1]) <= 0).all()


def test_a_summary_has_the_interval_of_the_mean() -> None:
    found = summarized([0.8, 0.9, 1.0])
    assert (found.problems, found.mean, found.least) == (3, 0.9, 0.8)
    assert 0.8 <= found.low <= found.mean <= found.high <= 1.0
    assert summarized([]).problems == 0


def test_an_interval_over_groups_is_as_wide_as_that_of_the_groups() -> None:
    values = np.random.default_rng(0).normal(size=12).tolist()
    alike = [value for value in values for _ in range(25)]
    groups = [number for number in range(12) for _ in range(25)]
    assert interval(alike, groups) == pytest.approx(interval(values))
    low, high = interval(alike)
    assert high - low < 0.5 * (interval(values)[1] - interval(values)[0])


def test_problems_of_one_shape_do_not_narrow_an_interval(heuristic: ConfigHeuristic) -> None:
    few = [trials_of(problem) for problem in problems(8, seed=5)]
    once, often = (
        [named_configs(one, heuristic, few, only_measured=True) for one in trials]
        for trials in (few, 9 * few)
    )
    assert is_better(often, FIRST) == pytest.approx(is_better(once, FIRST))
    many, some = summarized_way(often, FIRST), summarized_way(once, FIRST)
    assert many.problems == 9 * some.problems > 9
    assert (many.low, many.high) == (some.low, some.high)
    assert not is_better(9 * once[:1], FIRST)[0]


def test_as_many_members_are_tried_as_asked_for(heuristic: ConfigHeuristic) -> None:
    problem = parse("matmul:300x200x100")
    legal = AdaptedConfigs(problem, DEVICE)
    asked: list[Config] = []

    def usable(member: PortfolioMember) -> Config | None:
        asked.append(member.config)
        return legal.config(member.solver, member.config) if len(asked) > 2 else None

    def proposed(tried: int | None) -> int:
        asked.clear()
        return len(heuristic.propose(problem, DEVICE, usable, wanted=100, tried=tried))

    assert proposed(2) == 0
    assert proposed(3) == 1
    assert 1 < proposed(None) <= len(heuristic.members) - 2
    assert len(asked) == len(heuristic.members)


def test_nothing_to_learn_from_is_an_error(heuristic: ConfigHeuristic) -> None:
    ranker = fit_ranker([p for one in problems(4) for p in problem_rows(trials_of(one))])
    with pytest.raises(UsageError, match="no successful trials"):
        fit_heuristic([], ranker)
