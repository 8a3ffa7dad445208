"""Rankers learn which configs are fast, also of problems and configs that were never measured."""

from pathlib import Path

import numpy as np
import pytest

from modelled_trials import DEVICE, SOLVER, problems, time_of, trials_of
from skipjack.errors import MalformedError, UsageError
from skipjack.learn.ranker import (
    ProblemRows,
    fit_ranker,
    problem_rows,
    ranker_quality,
    shape_group,
)
from skipjack.models import BoostingOptions, CandidateScore, Ranker
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import find_solver

SMALL = BoostingOptions(trees=40, depth=5, shrinkage=0.2, column_share=0.5, bins=24)


@pytest.fixture(scope="module")
def rows() -> list[ProblemRows]:
    return [part for problem in problems(24) for part in problem_rows(trials_of(problem))]


@pytest.fixture(scope="module")
def ranker(rows: list[ProblemRows]) -> Ranker:
    return fit_ranker(rows, options=SMALL)


def test_it_orders_configs_of_a_problem_that_it_never_saw(ranker: Ranker) -> None:
    problem = parse("matmul:200x300x400")
    space = find_solver(SOLVER).space(problem, DEVICE)
    rng = np.random.default_rng(3)
    configs = list(dict.fromkeys(space.sample(rng) for _ in range(40)))
    score = CandidateScore(ranker, problem, DEVICE, SOLVER, space)
    ranked = sorted(configs, key=score)
    times = [time_of(problem, config) for config in ranked]
    assert np.mean(times[:10]) < np.mean(times[-10:])
    assert min(times[:10]) < 1.1 * min(times)


def test_configs_that_would_fail_have_worse_scores(ranker: Ranker) -> None:
    problem = parse("matmul:200x300x400")
    space = find_solver(SOLVER).space(problem, DEVICE)
    score = CandidateScore(ranker, problem, DEVICE, SOLVER, space)
    config = next(one for one in space.enumerate() if (one["k_block"], one["unroll"]) == (64, 2))
    assert score(config) > score(config.replace(unroll=1))


def test_scores_of_many_are_those_of_each(ranker: Ranker) -> None:
    problem = parse("matmul:96x80x64")
    space = find_solver(SOLVER).space(problem, DEVICE)
    score = CandidateScore(ranker, problem, DEVICE, SOLVER, space)
    configs = list(space.promising(6))
    assert score.many(configs) == pytest.approx([score(one) for one in configs])


def test_a_file_gives_the_same_scores(ranker: Ranker, tmp_path: Path) -> None:
    path = tmp_path / "ranker.npz"
    ranker.save(path)
    read = Ranker.read(path.read_bytes(), str(path))
    rows = np.random.default_rng(0).normal(size=(20, len(ranker.names))).astype(np.float32)
    assert read.names == ranker.names
    assert (read.scores(rows) == ranker.scores(rows)).all()


@pytest.mark.parametrize("cut", [0, 10, 1000, -5])
def test_a_damaged_file_is_named(ranker: Ranker, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "ranker.npz"
    ranker.save(path)
    with pytest.raises(MalformedError, match="the file"):
        Ranker.read(path.read_bytes()[:cut], "the file")


def test_it_applies_to_its_operations_and_devices_only(ranker: Ranker) -> None:
    product = parse("matmul:64x64x64")
    assert ranker.applies(product, DEVICE)
    assert not ranker.applies(parse("add:64"), DEVICE)
    assert not ranker.applies(product, describe("znver4/1"))


def test_folds_are_by_shape_whatever_the_layout() -> None:
    assert shape_group(parse("matmul:64x64x64:f32")) == shape_group(parse("matmul:64x64x64:f64"))
    assert shape_group(parse("matmul:64x64x64")) != shape_group(parse("matmul:64x64x65"))


def test_its_quality_on_shapes_held_out_is_better_than_drawing(rows: list[ProblemRows]) -> None:
    quality = ranker_quality(rows, 3)
    assert quality.problems == 24
    assert quality.drawn < quality.first <= quality.best_of_8 <= 1.0


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(UsageError, match="no trials to learn from"):
        fit_ranker([])
