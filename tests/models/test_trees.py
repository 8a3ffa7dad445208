"""Boosted trees: what they learn, when they are equal, and which files are refused."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

from skipjack.errors import MalformedError, UsageError
from skipjack.models import (
    BoostingOptions,
    Loss,
    TreeEnsemble,
    fit_ensembles,
    fit_trees,
    probabilities,
)


def a_table(rows: int = 200, width: int = 6, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 8, (rows, width)).astype(np.float32)


def a_function(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return table[:, 0] * 2.0 + np.where(table[:, 1] > 3, 5.0, -1.0) * (table[:, 2] > 1)


def equal(first: TreeEnsemble, second: TreeEnsemble) -> bool:
    one, other = first.arrays(), second.arrays()
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_trees_recover_a_function_also_at_rows_that_they_never_saw() -> None:
    seen, unseen = a_table(seed=1), a_table(seed=2)
    trees = fit_trees(seen, a_function(seen), BoostingOptions(trees=200))
    error = trees.predict(unseen) - a_function(unseen)
    assert np.sqrt(np.mean(error**2)) < 0.2 * a_function(unseen).std()


def test_features_that_matter_are_important_and_others_are_not() -> None:
    table = a_table()
    trees = fit_trees(table, a_function(table))
    assert trees.importance.sum() == pytest.approx(1, abs=1e-5)
    assert trees.importance[0] > trees.importance[2] > 0.01
    assert trees.importance[3:].max() < 0.01


def test_the_same_arguments_give_the_same_trees() -> None:
    table, options = a_table(), BoostingOptions(column_share=0.5, row_share=0.6)
    targets = a_function(table)
    assert equal(
        fit_trees(table, targets, options, seed=3), fit_trees(table, targets, options, seed=3)
    )
    assert not equal(fit_trees(table, targets, options), fit_trees(table, targets, options, seed=1))


def test_rows_of_weight_zero_are_left_out_and_other_weights_count() -> None:
    table = a_table(100)
    targets = a_function(table)
    wrong = np.where(np.arange(100) < 50, 1000.0, targets)
    kept = (np.arange(100) >= 50).astype(float)
    trees = fit_trees(table, wrong, BoostingOptions(bins=256), weights=kept)
    assert np.abs(trees.predict(table[50:]) - targets[50:]).max() < 3
    same = np.zeros((2, 1))
    leaf = fit_trees(same, [0.0, 4.0], BoostingOptions(trees=1), weights=[3.0, 1.0])
    assert leaf.predict(same)[0] == pytest.approx(1)


def test_a_row_twice_is_a_row_of_weight_two() -> None:
    table = a_table(60)
    targets = a_function(table)
    options = BoostingOptions(least_rows=1, trees=20)
    twice = fit_trees(np.repeat(table, 2, axis=0), np.repeat(targets, 2), options)
    weighted = fit_trees(table, targets, options, weights=np.full(60, 2.0))
    assert np.allclose(twice.predict(table), weighted.predict(table), atol=1e-5)


def test_the_logistic_loss_gives_probabilities() -> None:
    table = a_table(400)
    failed = ((table[:, 0] > 4) & (table[:, 1] < 4)).astype(float)
    trees = fit_trees(table, failed, BoostingOptions(loss=Loss.LOGISTIC, depth=3))
    found = probabilities(trees.predict(table))
    assert ((found > 0.5) == (failed > 0)).all()
    assert found.min() > 0
    assert found.max() < 1
    always = fit_trees(table, np.ones(400), BoostingOptions(loss=Loss.LOGISTIC))
    assert probabilities(always.predict(table)).min() > 0.99


def test_equal_features_and_constant_ones_split_nothing_twice() -> None:
    table = a_table(80, 1)
    twins = np.hstack([np.full((80, 1), 7.0), table, table])
    trees = fit_trees(twins, table[:, 0])
    assert trees.importance.tolist() == [0, 1, 0]  # the first of equal splits is taken
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = fit_trees(np.ones((5, 2)), [1.0, 2.0, 3.0, 4.0, 5.0])
        constant = fit_trees(table, np.full(80, 0.3))
    assert flat.predict(np.ones((1, 2)))[0] == pytest.approx(3)
    assert constant.predict(table) == pytest.approx(np.full(80, 0.3))
    assert len(constant.features) == len(constant.roots)


def test_one_row_is_enough() -> None:
    trees = fit_trees([[1.0, 2.0]], [42.0])
    assert trees.predict([[5.0, 5.0]])[0] == pytest.approx(42)
    assert trees.predict(np.zeros((0, 2))).shape == (0,)


def test_the_shape_of_trees_is_limited() -> None:
    table = a_table()
    stump = fit_trees(table, a_function(table), BoostingOptions(trees=7, depth=1))
    assert len(stump.roots) == 7
    assert len(stump.features) <= 21
    coarse = fit_trees(table, a_function(table), BoostingOptions(least_rows=90, trees=3))
    leaves = np.isinf(coarse.thresholds)
    assert leaves.sum() <= 6


def test_many_values_are_divided_into_bins() -> None:
    table = np.random.default_rng(0).lognormal(size=(2000, 2)).astype(np.float32)
    trees = fit_trees(table, np.log(table[:, 0]), BoostingOptions(bins=16))
    inner = np.isfinite(trees.thresholds)
    assert len(np.unique(trees.thresholds[inner & (trees.features == 0)])) <= 15
    assert np.corrcoef(trees.predict(table), np.log(table[:, 0]))[0, 1] > 0.97


def test_several_ensembles_are_those_that_would_be_fitted_alone() -> None:
    table = a_table()
    targets = [a_function(table), table[:, 4] - table[:, 5], np.zeros(200)]
    weights = [None, (table[:, 3] > 2).astype(float), None]
    together = fit_ensembles(table, targets, weights=weights)
    for trees, wanted, weight in zip(together, targets, weights, strict=True):
        assert equal(trees, fit_trees(table, wanted, weights=weight))


def test_a_row_is_predicted_alone_as_among_others() -> None:
    table = a_table(500)
    trees = fit_trees(table, a_function(table))
    alone = np.concatenate([trees.predict(table[at : at + 1]) for at in range(500)])
    assert np.allclose(alone, trees.predict(table), rtol=1e-6)


def test_arrays_in_a_file_make_the_same_trees() -> None:
    table = a_table()
    trees = fit_trees(table, a_function(table))
    file = io.BytesIO()
    np.savez(file, **trees.arrays("time_"), **fit_trees(table, table[:, 1]).arrays("valid_"))
    read = np.load(io.BytesIO(file.getvalue()), allow_pickle=False)
    again = TreeEnsemble.of(read, "model.npz", "time_")
    assert equal(trees, again)
    assert np.array_equal(trees.predict(table), again.predict(table))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("below", lambda old: old + 100_000),
        ("above", lambda old: -1 - old),
        ("below", lambda old: np.roll(old, 1)),
        ("roots", lambda old: old[:0]),
        ("features", lambda old: old + 6),
        ("features", lambda old: old.astype(np.float32)),
        ("values", lambda old: old[1:]),
        ("values", lambda old: old * np.nan),
        ("thresholds", lambda old: np.where(np.isfinite(old), np.nan, old)),
        ("depth", lambda old: old - 3),
        ("depth", lambda old: np.array([1, 2])),
        ("depth", lambda old: old * 10_000_000),
    ],
)
def test_damaged_arrays_are_refused(name: str, change: Any) -> None:
    table = a_table()
    arrays = fit_trees(table, a_function(table), BoostingOptions(trees=5)).arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(MalformedError, match="the model"):
        TreeEnsemble.of(arrays, "the model")


def test_a_missing_array_is_named() -> None:
    arrays = fit_trees([[1.0]], [1.0]).arrays()
    del arrays["values"]
    with pytest.raises(MalformedError, match="values"):
        TreeEnsemble.of(arrays, "model.npz")


@pytest.mark.parametrize(
    ("rows", "targets", "weights"),
    [
        (np.zeros((0, 3)), [], None),
        (np.zeros((2, 0)), [1, 2], None),
        (np.zeros(3), [1, 2, 3], None),
        ([[np.nan]], [1.0], None),
        ([[1.0]], [np.inf], None),
        ([[1.0]], [1.0, 2.0], None),
        ([[1.0]], [1.0], [0.0]),
        ([[1.0]], [1.0], [-1.0]),
    ],
)
def test_what_cannot_be_fitted_is_refused(rows: Any, targets: Any, weights: Any) -> None:
    with pytest.raises(UsageError):
        fit_trees(rows, targets, weights=weights)


def test_options_and_labels_out_of_range_are_refused() -> None:
    for wrong in ({"trees": 0}, {"depth": 17}, {"shrinkage": 0.0}, {"bins": 1}, {"ridge": -1.0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            BoostingOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="logistic"):
        fit_trees([[1.0]], [2.0], BoostingOptions(loss=Loss.LOGISTIC))
    with pytest.raises(UsageError, match="6 features"):
        fit_trees(a_table(), np.ones(200)).predict(a_table(5, 3))
