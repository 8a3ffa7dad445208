"""Trees with one comparison for each level, for many targets at once."""

import numpy as np
import pytest

from skipjack.errors import MalformedError, UsageError
from skipjack.models import SymmetricOptions, SymmetricTrees, fit_symmetric

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 6)).astype(np.float32)
TARGETS = np.stack([ROWS[:, 0] > 0, ROWS[:, 1] * 2, ROWS[:, 0] * ROWS[:, 2]], axis=1)
OPTIONS = SymmetricOptions(trees=80, depth=4)


def test_they_learn_each_target() -> None:
    trees = fit_symmetric(ROWS[:300], TARGETS[:300], OPTIONS)
    found = trees.predict_rows(ROWS[300:])
    for at in range(3):
        assert np.corrcoef(found[:, at], TARGETS[300:, at])[0, 1] > 0.7


def test_the_same_arguments_give_the_same_trees() -> None:
    first, second = (fit_symmetric(ROWS, TARGETS, OPTIONS, seed=3) for _ in range(2))
    assert (first.values == second.values).all()
    assert (first.features == second.features).all()


def test_targets_without_weight_do_not_count() -> None:
    known = RNG.random(TARGETS.shape) < 0.7
    spoiled = np.where(known, TARGETS, 1e9)
    weights = known.astype(float)
    trees = fit_symmetric(ROWS, spoiled, OPTIONS, weights=weights)
    assert abs(trees.predict_rows(ROWS)).max() < 100


def test_constant_features_and_a_single_row_give_about_the_mean() -> None:
    trees = fit_symmetric(np.ones((5, 2)), np.arange(5.0)[:, None], OPTIONS)
    assert trees.predict(np.ones(2))[0] == pytest.approx(2.0, abs=0.3)


def test_arrays_read_back_give_nearly_the_same() -> None:
    trees = fit_symmetric(ROWS, TARGETS, OPTIONS)
    read = SymmetricTrees.of(trees.arrays(), "it", ROWS.shape[1])
    assert read.predict_rows(ROWS[:50]) == pytest.approx(trees.predict_rows(ROWS[:50]), abs=0.01)


@pytest.mark.parametrize("name", ["features", "thresholds", "values", "base"])
def test_damaged_arrays_are_refused(name: str) -> None:
    arrays = fit_symmetric(ROWS, TARGETS, SymmetricOptions(trees=3, depth=2)).arrays()
    for wrong in (arrays[name][:1, ...], np.full_like(arrays[name], 99), None):
        broken = {**arrays, name: wrong}
        if wrong is None:
            del broken[name]
        if (
            name in ("thresholds", "values", "base")
            and wrong is not None
            and wrong.shape == arrays[name].shape
        ):
            continue  # other numbers of the same kind are possible
        with pytest.raises(MalformedError, match="it"):
            SymmetricTrees.of(broken, "it", ROWS.shape[1])  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(UsageError, match="finite"):
        fit_symmetric([[np.nan]], [[1.0]])
    with pytest.raises(UsageError, match="do not fit"):
        fit_symmetric(ROWS, TARGETS[:5])
