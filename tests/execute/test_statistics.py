"""Medians, intervals and paired ratios on blocks with known times."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from skipjack.execute import Block, Ratio, paired_ratio, summarize
from skipjack.execute.statistics import (
    log_interval,
    median_interval,
    undisturbed,
    undisturbed_pairs,
)
from skipjack.testing.sessions import NullSession


def block(
    time_ns: float, round_: int = 0, disturbed: bool = False, sentinel_ns: float = 1000.0
) -> Block:
    return Block(1, round_, 1, (time_ns, time_ns, time_ns), (1000.0, sentinel_ns), disturbed)


def timed(session: NullSession, kernel: int, blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.kernel == kernel]


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("count", [10, 41])
def test_an_interval_covers_the_median_as_often_as_it_says(confidence: float, count: int) -> None:
    rng = np.random.default_rng(1)
    truth = np.log(2.0)  # the median of an exponential distribution, which is far from normal
    repeats = 2000
    covered = 0
    for _ in range(repeats):
        low, high = median_interval(rng.exponential(size=count).tolist(), confidence)
        covered += low <= truth <= high
    tolerance_factor = 3 * (confidence * (1 - confidence) / repeats) ** 0.5
    assert covered / repeats >= confidence - tolerance_factor


def test_more_values_narrow_the_interval() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=400).tolist()
    few, many = (median_interval(values[:count], 0.99) for count in (20, 400))
    assert many[1] - many[0] < few[1] - few[0]


def test_three_values_know_no_bounds_and_are_called_unsupported() -> None:
    assert log_interval([3.0, 1.0, 2.0], 0.9975) == (-inf, inf)
    assert not Ratio(1.0, 1.0, 1.0, pairs=3).supported
    assert Ratio(1.0, 1.0, 1.0, pairs=4).supported


def test_few_values_get_students_interval_at_the_same_confidence() -> None:
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(4000):
        low, high = log_interval(rng.normal(size=5).tolist(), 0.9975)
        missed += not low < 0.0 < high
    assert missed / 4000 < 0.005


def test_many_values_get_the_interval_that_assumes_nothing() -> None:
    values = np.random.default_rng(8).normal(size=20).tolist()
    assert log_interval(values, 0.9975) == median_interval(values, 0.9975)


def test_a_pair_sees_two_percent_through_a_drift_of_thirty() -> None:
    session = NullSession({1: 1020.0, 2: 1000.0}, np.random.default_rng(3), noise=0.005, drift=0.3)
    blocks, _ = session.time([1, 2], 40)
    slower, faster = timed(session, 1, blocks), timed(session, 2, blocks)
    ratio = paired_ratio(slower, faster)
    assert 1.01 < ratio.low < 1.02 < ratio.high < 1.03
    alone = summarize(slower)
    assert alone.spread > 0.2, "each alone is lost in the drift"


def test_pairs_are_of_one_round() -> None:
    slower = [block(200.0, round_) for round_ in range(3)]
    faster = [block(100.0, round_) for round_ in (1, 2, 7)]
    pairs = undisturbed_pairs(slower, faster)
    assert [(a.round, b.round) for a, b in pairs] == [(1, 1), (2, 2)]
    assert paired_ratio(slower, faster).ratio == pytest.approx(2.0)


def test_disturbed_blocks_are_set_aside_and_counted() -> None:
    blocks = [
        block(100.0),
        block(100.0),
        block(500.0, disturbed=True),
        block(300.0, 0, False, 1100),
    ]
    timing = summarize(blocks)
    assert timing.time_ns == 100.0
    assert timing.samples == 6
    assert timing.set_aside == 6
    assert undisturbed(blocks) == blocks[:2]


def test_where_all_is_disturbed_all_is_believed() -> None:
    blocks = [block(100.0, disturbed=True), block(120.0, disturbed=True)]
    timing = summarize(blocks)
    assert timing.time_ns == 110.0
    assert timing.set_aside == 0


def test_a_pair_with_a_disturbed_half_is_left_out_also_where_most_are() -> None:
    slower = [block(200.0, round_) for round_ in range(4)]
    faster = [block(100.0, round_) for round_ in range(4)]
    one = [replace(faster[0], disturbed=True, samples_ns=(900.0,)), *faster[1:]]
    assert len(undisturbed_pairs(slower, one)) == 3
    most = [replace(each, disturbed=True) for each in faster[:3]] + faster[3:]
    ratio = paired_ratio(slower, most)
    assert (ratio.ratio, ratio.pairs, ratio.left_out) == (pytest.approx(2.0), 1, 3)
    assert ratio.noisy


def test_without_an_undisturbed_pair_there_is_no_ratio() -> None:
    slower = [block(200.0, round_, disturbed=True) for round_ in range(9)]
    ratio = paired_ratio(slower, [block(100.0, round_) for round_ in range(9)])
    assert ratio.noisy
    assert ratio.to_json()["ratio"] is None


def test_few_rounds_are_not_noisy() -> None:
    ratio = paired_ratio([block(200.0)], [block(100.0)])
    assert not ratio.supported
    assert not ratio.noisy


def test_a_slower_machine_leaves_pairs_as_they_are_and_a_change_within_a_round_does_not() -> None:
    def at(round_: int, before: float, after: float) -> Block:
        return Block(1, round_, 1, (100.0,), (before, after), False)

    slow = [at(0, 1000.0, 1000.0), *(at(round_, 1500.0, 1490.0) for round_ in (1, 2, 3))]
    assert len(undisturbed_pairs(slow, slow)) == 4
    changing = [*slow, at(4, 1000.0, 1500.0)]
    assert [a.round for a, _ in undisturbed_pairs(changing, changing)] == [0, 1, 2, 3]
    always = [at(round_, 1000.0, 1500.0) for round_ in range(4)]
    assert len(undisturbed_pairs(always, always)) == 4, "that is how this machine is"


def test_what_is_not_known_is_null_in_json() -> None:
    nan = float("nan")
    text = json.dumps(Ratio(nan, nan, float("inf")).to_json(), allow_nan=False)
    assert json.loads(text)["ratio"] is None
