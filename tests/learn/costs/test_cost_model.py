"""The cost model: features of every nest, sums over trees, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skipjack.errors import MalformedError
from skipjack.learn.costs import (
    MODEL_FILE,
    TreeCostModel,
    cost_facts,
    cost_features,
    model,
    read_model,
    shipped_model,
)
from skipjack.learn.loops import Preset, loop_game
from skipjack.models import TreeEnsemble
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.cpu.nest import Schedule

DEVICE = describe("skylake-avx512/1")
PROBLEM = parse("matmul:64x48x32")


def stump() -> TreeCostModel:
    """Says 1 where the first feature is at most 2, else 5; and 10 more in a tree of one leaf."""
    trees = TreeEnsemble(
        roots=np.array([0, 3], np.int32),
        features=np.zeros(4, np.int32),
        thresholds=np.array([2.0, np.inf, np.inf, np.inf], np.float32),
        below=np.array([1, 1, 2, 3], np.int32),
        above=np.array([2, 1, 2, 3], np.int32),
        values=np.array([0, 1, 5, 10], np.float32),
        depth=1,
    )
    return TreeCostModel(trees)


def test_trees_add_up_what_their_leaves_say() -> None:
    rows = np.array([[1.0, 9.0], [2.0, 9.0], [2.5, 0.0]], np.float32)
    assert stump().predict(rows).tolist() == [11.0, 11.0, 15.0]


@pytest.mark.parametrize(
    "key",
    [
        *("matmul:7x33x5/ta=1/bias=1/act=gelu", "sum:9x8x7/axis=0,2:f64", "add:100x3/y=3"),
        *("conv2d:n1c4h9w9k16y3x3p1q1", "exp:1000", "max:50/axis=0", "bmm:2x9x8x7"),
    ],
)
def test_features_are_finite_and_as_many_for_every_schedule(key: str) -> None:
    problem = parse(key)
    counts = set()
    for device in (DEVICE, describe("haswell/2")):
        name = "direct_nest" if problem.operation == "conv2d" else "nest"
        space = find_solver(name).space(problem, device)
        rng = np.random.default_rng(0)
        configs = [space.default(), *(space.sample(rng) for _ in range(5))]
        facts = cost_facts(problem, device)
        for config in configs:
            row = cost_features(facts, Schedule.parse(str(config["schedule"])))
            counts.add(len(row))
            assert np.isfinite(row).all()
    (count,) = counts
    assert all(shipped_model(preset).trees.features.max() < count for preset in Preset)


@pytest.mark.parametrize("preset", Preset)
def test_the_shipped_models_prefer_vectors_in_registers_to_the_untuned_nest(preset: Preset) -> None:
    model = shipped_model(preset)
    untuned, tiled = Schedule.parse("m k n"), Schedule.parse("m:6 n:32 k m/u n/v")
    by_problem = model.log_seconds(PROBLEM, DEVICE, [untuned, tiled])
    assert by_problem[1] < by_problem[0]
    game = loop_game(PROBLEM, DEVICE, preset)
    assert model.log_seconds_in(game, [untuned, tiled]) == by_problem
    assert model.log_seconds_in(game, []) == []


def test_features_tell_in_which_steps_memory_is_walked() -> None:
    """A column of 128 floats lies in few places of a cache, one of 100 in all of them."""
    column = Schedule.parse("n m k/u")
    rows = []
    for width in (128, 100):
        facts = cost_facts(parse(f"matmul:64x{width}x32"), DEVICE)
        rows.append(cost_features(facts, column))
    steps = [{value for value in row if value in (9.0, 4.0)} for row in rows]
    assert 9.0 in steps[0]
    assert 9.0 not in steps[1]


def test_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / MODEL_FILE
    shipped_model().save(path)
    again = read_model(path.read_bytes(), MODEL_FILE)
    assert again.card == shipped_model().card
    rows = np.random.default_rng(0).normal(size=(9, 80)).astype(np.float32)
    assert again.predict(rows).tolist() == shipped_model().predict(rows).tolist()


def test_a_model_of_other_features_and_damaged_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / MODEL_FILE
    shipped_model().save(path)
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], b"nothing", b""):
        with pytest.raises(MalformedError, match="not a cost model"):
            read_model(damaged, MODEL_FILE)
    wrong = stump()
    wrong.trees.below[0] = 77
    wrong.save(path)
    with pytest.raises(MalformedError, match="nodes of its trees do not exist"):
        read_model(path.read_bytes(), MODEL_FILE)
    monkeypatch.setattr(model, "MODEL_FEATURES", 9)
    with pytest.raises(MalformedError, match=r"features of version 3.*fit it again"):
        read_model(data, MODEL_FILE)
