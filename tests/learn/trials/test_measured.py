"""Trials of several sessions of a problem, on one scale."""

from math import inf

import pytest

from skipjack.core import Config, Status, Trial
from skipjack.learn.trials import MeasuredConfig, ProblemTrials, on_one_scale, solver_trials
from skipjack.native import describe
from skipjack.operations import parse


def measured(tile: int, time_ns: float) -> MeasuredConfig:
    return MeasuredConfig("nest", Config({"tile": tile}), time_ns=time_ns)


def test_a_config_that_was_told_several_times_has_the_median() -> None:
    config = Config({"tile": 1})
    trials = [Trial(config, value=value) for value in (5.0, 1.0, 3.0)]
    assert solver_trials("nest", trials) == [MeasuredConfig("nest", config, time_ns=3.0)]


def test_a_failure_counts_only_if_the_config_never_succeeded() -> None:
    good, bad = Config({"tile": 1}), Config({"tile": 2})
    trials = [
        Trial(good, value=2.0),
        Trial(good, Status.TIMEOUT, reason="too long"),
        Trial(bad, Status.CRASH, reason="signal 11"),
    ]
    found = {one.config: one for one in solver_trials("nest", trials)}
    assert found[good].time_ns == 2.0
    assert (found[bad].status, found[bad].time_ns, found[bad].reason) == (
        *(Status.CRASH, inf),
        "signal 11",
    )


def test_sessions_are_scaled_by_the_configs_that_they_share() -> None:
    quiet = [measured(1, 10.0), measured(2, 20.0), measured(3, 30.0)]
    busy = [measured(1, 15.0), measured(2, 30.0), measured(4, 12.0)]
    found = {one.config["tile"]: one.time_ns for one in on_one_scale([busy, quiet])}
    assert found == pytest.approx({1: 15.0, 2: 30.0, 3: 45.0, 4: 12.0})


def test_quality_is_relative_to_the_best() -> None:
    problem, device = parse("matmul:64x64x64"), describe("haswell/1")
    failed = MeasuredConfig("nest", Config({"tile": 9}), Status.WRONG)
    trials = ProblemTrials(problem, device, (measured(1, 10.0), measured(2, 40.0), failed))
    assert trials.best_ns == 10.0
    assert trials.quality("nest", Config({"tile": 2})) == 0.25
    assert trials.quality("nest", Config({"tile": 9})) == 0.0
    assert trials.quality("nest", Config({"tile": 7})) is None
