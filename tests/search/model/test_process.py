"""The Gaussian process: what it predicts, and that a row more is what it says."""

import numpy as np
import pytest

from skipjack.search.model.process import GaussianProcess
from skipjack.search.model.settings import ModelSettings

RNG = np.random.default_rng(0)
POOL = RNG.random((200, 3))
VALUES = np.sin(5 * POOL[:, 0]) + POOL[:, 1]
"""The third column says nothing."""
KNOWN = list(range(30))


def process(groups: tuple[int, ...] = (0, 1, 2)) -> GaussianProcess:
    made = GaussianProcess(np.array(groups), ModelSettings())
    made.fit(POOL[KNOWN], VALUES[KNOWN])
    made.condition(POOL[KNOWN], POOL)
    return made


def test_it_predicts_what_it_knows_and_what_is_near() -> None:
    expected, deviation = process().predict(VALUES[KNOWN])
    assert np.abs(expected - VALUES)[KNOWN].max() < 0.05
    assert np.abs(expected - VALUES)[30:].mean() < 0.1
    assert deviation[KNOWN].max() < deviation[30:].mean()


def test_a_row_more_is_the_same_as_conditioning_anew() -> None:
    stepwise, anew = process(), process()
    for at in range(30, 130):  # more than there is room for at first
        stepwise.append(POOL[at])
    anew.condition(POOL[:130], POOL)
    for one, other in zip(stepwise.predict(VALUES[:130]), anew.predict(VALUES[:130]), strict=True):
        assert one == pytest.approx(other, abs=2e-3)
    other = VALUES[:130] - 1.0
    assert stepwise.expect(other) == pytest.approx(anew.expect(other), abs=5e-3)


def test_a_fit_finds_which_columns_matter() -> None:
    made = process()
    lengths = made.lengths
    assert lengths[2] > 2 * lengths[0]


def test_a_linear_column_carries_far_beyond_the_known_rows() -> None:
    slope = np.linspace(-1, 1, 200)[:, None]
    made = GaussianProcess(np.array([0, -1]), ModelSettings())
    rows = np.hstack([np.zeros((200, 1)), slope])
    middle = list(range(80, 120, 4))
    made.condition(rows[middle], rows)
    expected, _ = made.predict(3 * slope[middle, 0])
    assert expected[-1] > 2.0
    assert expected[0] < -2.0


def test_equal_arguments_give_equal_predictions() -> None:
    first, second = process().predict(VALUES[KNOWN]), process().predict(VALUES[KNOWN])
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
