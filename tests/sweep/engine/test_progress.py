"""How long a sweep will still take is judged by the runs and builds that were made."""

import pytest

from skipjack.core import Config, Status
from skipjack.sweep.engine import SweepTrial
from skipjack.sweep.engine.result import seconds_left


def ran(seconds: float, build: float = 0.0, cached: bool = False) -> SweepTrial:
    return SweepTrial(
        1, Config(), Status.OK, {}, 1.0, seconds=seconds, build_seconds=build, built=build > 0,
        cached=cached,
    )  # fmt: skip


def test_runs_and_builds_take_what_their_median_took() -> None:
    trials = [ran(2.0, build=30.0), ran(3.0), ran(50.0), ran(2.5, build=40.0)]
    assert seconds_left(trials, runs=4, builds=2) == pytest.approx(4 * 2.75 + 2 * 35.0)


def test_runs_of_an_earlier_sitting_say_nothing() -> None:
    assert seconds_left([ran(99.0, build=9.0, cached=True), ran(1.0)], 3, 1) == 3.0


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert seconds_left([], runs=3, builds=0) is None
    assert seconds_left([ran(1.0, cached=True)], runs=1, builds=0) is None


def test_at_the_end_nothing_is_left() -> None:
    assert seconds_left([ran(1.0)], runs=0, builds=0) == 0.0
