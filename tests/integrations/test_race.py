"""The fastest wins, the slow run little, and sittings are brought to one scale."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from skipjack.integrations.race import ROUNDS, fold, race


def test_the_fastest_has_the_lowest_median_though_the_clock_drifts() -> None:
    rng = np.random.default_rng(0)
    clock = 1.0

    def sample(order: Sequence[int]) -> Mapping[int, float]:
        nonlocal clock
        clock *= 1.01  # everything gets slower, for all alike
        return {n: clock * (100.0 + n) * rng.normal(1.0, 0.002) for n in order}

    samples = race(range(12), sample)
    assert min(samples, key=lambda n: float(np.median(samples[n]))) == 0


def test_the_hopeless_drop_out_first() -> None:
    samples = race([1.0, 1.03, 1.2, 3.0], lambda order: {n: n for n in order})
    assert [len(taken) for taken in samples.values()] == [40, 40, 10, 2]


def test_one_disturbed_sample_puts_nobody_out() -> None:
    calls = 0

    def sample(order: Sequence[str]) -> Mapping[str, float]:
        nonlocal calls
        calls += 1
        return {name: 50.0 if name == "fast" and calls == 1 else 10.0 for name in order} | (
            {"fast": 9.0} if calls > 1 and "fast" in order else {}
        )

    samples = race(["slow", "fast"], sample)
    assert len(samples["fast"]) > 2
    assert np.median(samples["fast"]) < np.median(samples["slow"])


def test_who_can_run_no_more_is_out_and_the_others_go_on() -> None:
    calls = 0

    def sample(order: Sequence[str]) -> Mapping[str, float]:
        nonlocal calls
        calls += 1
        return {name: 10.0 for name in order if name != "broken" or calls < 2}

    samples = race(["a", "broken", "b"], sample)
    assert [len(taken) for taken in samples.values()] == [40, 1, 40]
    assert race(["broken"], lambda order: {}) == {"broken": []}


def test_without_time_everybody_still_gets_the_first_round() -> None:
    samples = race("abc", lambda order: dict.fromkeys(order, 1.0), out_of_time=lambda: True)
    assert [len(taken) for taken in samples.values()] == [ROUNDS[0][0]] * 3


def test_one_alone_is_timed_once_and_won() -> None:
    assert len(race(["only"], lambda order: dict.fromkeys(order, 1.0))["only"]) == 2


def test_a_later_sitting_is_scaled_by_what_it_shares() -> None:
    # The machine was half as fast the second time; the newcomer beats the leader by a tenth.
    folded = fold([{"a": 100.0, "b": 120.0}, {"a": 200.0, "c": 180.0}])
    assert folded == pytest.approx({"a": 100.0, "b": 120.0, "c": 90.0})


def test_a_sitting_that_shares_nothing_is_taken_as_it_is() -> None:
    assert fold([{"a": 1.0}, {"b": 2.0}]) == {"a": 1.0, "b": 2.0}
