"""Figures of searchers on recordings: means over seeds, intervals, means over recordings."""

import math

import pytest

from skipjack.core import Config, Trial
from skipjack.learn.replay import (
    RandomBaseline,
    RecordedSpace,
    ScoredRuns,
    run_replay,
    summarize_recordings,
)

SPACE = RecordedSpace([Trial(Config(a=a), value=1.0 + a) for a in range(50)])
BASELINE = RandomBaseline(SPACE, 10)


def runs_of(*curves: list[float]) -> ScoredRuns:
    return ScoredRuns("some", SPACE.name, curves, BASELINE)


def test_a_perfect_search_has_no_area_and_reaches_the_optimum_at_once() -> None:
    found = runs_of([1.0] * 10, [1.0] * 10).summary()
    assert (found.area.mean, found.score.mean, found.ratio.mean) == (0.0, 1.0, 1.0)
    assert (found.reached, found.evaluations, found.runs) == (2, 1.0, 2)
    assert found.random_evaluations.mean > 4


def test_means_are_those_of_the_runs_and_lie_in_their_intervals() -> None:
    found = runs_of([2.0] * 10, [8.0] * 10, [4.0] * 10).summary()
    assert found.area.mean == pytest.approx(math.log(4.0))
    assert found.ratio.mean == pytest.approx(4.0)
    assert math.log(2.0) <= found.area.low < found.area.mean < found.area.high <= math.log(8.0)
    assert found.reached == 0
    assert math.isinf(found.evaluations)


def test_what_does_not_come_counts_as_the_slowest() -> None:
    found = runs_of([math.inf] * 10).summary()
    assert found.ratio.mean == pytest.approx(50.0)
    assert found.score.mean < 0


def test_random_search_scores_about_0() -> None:
    curves = [run_replay(SPACE, "random", 10, seed).curve for seed in range(200)]
    found = ScoredRuns("random", SPACE.name, curves, BASELINE).summary()
    assert found.score.low < 0.0 < found.score.high
    assert found.random_evaluations.mean == pytest.approx(1.0, abs=0.2)


def test_several_recordings_have_geometric_means() -> None:
    one, other = runs_of([2.0] * 10), runs_of([8.0] * 10)
    found = summarize_recordings([one, other])
    areas = [one.summary().area.mean, other.summary().area.mean]
    assert found.area.mean == pytest.approx(math.sqrt(areas[0] * areas[1]))
    assert found.ratio.mean == pytest.approx(4.0)
    shares = [1 - each.summary().score.mean for each in (one, other)]
    assert found.score.mean == pytest.approx(1 - math.sqrt(shares[0] * shares[1]))
    assert found.recording == ""
    assert found.runs == 2
