"""What runs of one setting say about the others."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from skipjack.search.load.posterior import SettingModel


def test_runs_of_a_setting_say_something_about_its_neighbours() -> None:
    settings = [{"batch": batch} for batch in (1, 2, 4, 8, 16)]
    model = SettingModel(settings, log(100), log(1000))
    before = model.believe()
    assert before.mean == pytest.approx(np.full(5, (log(100) + log(1000)) / 2))
    model.add(0, log(800), True)
    after = model.believe()
    gains = after.mean - before.mean
    assert (np.diff(gains) < 0).all(), "the nearer, the more"
    assert after.chance_above(log(700))[0] > 0.8


def test_a_setting_that_failed_often_is_given_up() -> None:
    model = SettingModel([{"batch": 1}, {"batch": 2}], log(100), log(1000))
    for _ in range(3):
        model.add(0, log(300), False)
    assert model.believe().chance_above(log(310))[0] < 0.01


def test_one_unlucky_run_is_outvoted() -> None:
    model = SettingModel([{"batch": 1}, {"batch": 2}], log(100), log(1000))
    model.add(0, log(200), False)
    for _ in range(3):
        model.add(0, log(500), True)
    assert model.believe().mean[0] > log(480)


def test_a_word_in_common_makes_settings_alike() -> None:
    settings = [{"precision": name} for name in ("fp32", "fp32", "int8")]
    model = SettingModel([{**one, "n": n} for n, one in enumerate(settings)], log(100), log(1000))
    model.add(0, log(900), True)
    belief = model.believe()
    assert belief.mean[1] > belief.mean[2]


def test_what_is_expected_above_a_level_is_never_negative() -> None:
    model = SettingModel([{"batch": 1}, {"batch": 2}], log(100), log(1000))
    model.add(0, log(300), False)
    model.add(1, log(500), True)
    gains = model.believe().gain_above(log(500))
    assert (gains >= 0).all()
    assert gains[1] > gains[0]
