"""What a sweep says in the end: the best, how sure it is, and what is gained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from simulated_sweeps import Machine, sweep

from skipjack.core import Config, Objective, Status
from skipjack.ledger import Ledger
from skipjack.search import SearcherInterface
from skipjack.search.load import Bisect, LoadRange
from skipjack.sweep.bench import RunOutcome, SimulatedBench, Workload
from skipjack.sweep.configs import BaseConfig
from skipjack.sweep.engine import SweepContext, SweepOptions, SweepRequest, load_search, run_sweep
from skipjack.sweep.files import SweepFile


def test_failures_are_run_again_on_request_alone(ledger: Ledger) -> None:
    machine = Machine(lambda p: -1.0)
    sweep(ledger, machine, {"a": (1,)})
    sweep(ledger, machine, {"a": (1,)})
    assert len(machine.runs) == 1
    sweep(ledger, machine, {"a": (1,)}, retry_failed=True)
    assert len(machine.runs) == 2


def test_the_baseline_runs_first_and_gains_are_over_it(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    result = sweep(ledger, machine, {"a": (6, 8)}, {"a": 4, "other": "x"}, confirm=2)
    assert machine.points[0] == {"a": 4}
    assert result.baseline_value == 4.0
    assert result.gain is not None and result.gain.ratio == 2.0 and result.gain.runs == 2
    assert result.full_config == {"a": 8, "other": "x"}


def test_a_winner_by_luck_does_not_survive_confirmation(ledger: Ledger) -> None:
    tries: dict[int, int] = {}

    def speed(point: Mapping[str, Any]) -> float:
        tries[point["a"]] = tries.get(point["a"], 0) + 1
        lucky = point["a"] == 1 and tries[1] == 1
        return 103.0 if lucky else {1: 90.0, 2: 100.0}[point["a"]]

    result = sweep(ledger, Machine(speed), {"a": (1, 2)}, confirm=2)
    assert dict(result.best or {}) == {"a": 2} and result.best_value == 100.0


def test_a_winner_that_does_not_hold_gives_way_to_the_next(ledger: Ledger) -> None:
    tries: dict[int, int] = {}

    def speed(point: Mapping[str, Any]) -> float:
        tries[point["a"]] = tries.get(point["a"], 0) + 1
        return -1.0 if point["a"] == 3 and tries[3] > 1 else float(point["a"])

    result = sweep(ledger, Machine(speed), {"a": (1, 2, 3)}, confirm=3)
    assert dict(result.best or {}) == {"a": 2}
    assert "3 of 3 confirming runs held" in result.confirmed
    assert "1 better in the search did not" in result.confirmed


def test_short_runs_search_and_full_runs_confirm(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    result = sweep(ledger, machine, {"a": (1, 2, 3, 4, 5)}, screen={"ms": 10}, confirm=1)
    settings = [settings for _, settings in machine.runs]
    assert settings == [{"ms": 10}] * 5 + [{}] * 3
    assert dict(result.best or {}) == {"a": 5}


def test_repeats_are_judged_by_their_median(ledger: Ledger) -> None:
    values = iter([1.0, 9.0, 2.0, 5.0, 4.0, 3.0])
    result = sweep(ledger, Machine(lambda p: next(values)), {"a": (1, 2)}, repeats=3)
    assert dict(result.best or {}) == {"a": 2} and result.best_value == 4.0


def test_the_largest_load_that_holds_is_found_with_its_setting(ledger: Ledger) -> None:
    limits = {8: 700.0, 16: 1200.0, 32: 900.0}

    def answer(point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        held = point["qps"] <= limits[int(point["batch"])]  # type: ignore[operator]
        return RunOutcome(Status.OK if held else Status.INVALID, {}, seconds=0.1)

    bench = SimulatedBench(answer, lambda p: str(p["batch"]))
    file = SweepFile(Path("load.json"), {"batch": (8, 16, 32)})
    load = load_search(LoadRange("qps", 100, 3000), file, BaseConfig(), None, {})
    request = SweepRequest(
        file,
        BaseConfig({"batch": 8, "qps": 600}, "base.json"),
        bench,
        SweepContext(Workload("load", "0" * 16), "cpu", "cpu:1"),
        SweepOptions((Objective("qps", "max"),), load="qps", confirm=2),
        load=load,
    )
    result = run_sweep(request, ledger)
    assert result.best is not None and result.best["batch"] == 16
    assert 1200 * 0.93 <= float(result.best["qps"] or 0) <= 1200
    assert "2 of 2 confirming runs held" in result.confirmed and "limit" in result.confirmed
    assert result.gain is None, "the load of a base config is no measure of it"
    assert result.builds <= 3 and len(result.trials) <= 40


def test_a_load_that_nothing_holds_is_no_answer(ledger: Ledger) -> None:
    bench = SimulatedBench(lambda p, s: RunOutcome(Status.INVALID, {}, "too slow"), lambda p: "")
    file = SweepFile(Path("load.json"), {})
    request = SweepRequest(
        file,
        BaseConfig(),
        bench,
        SweepContext(Workload("load", "0" * 16), "cpu", "cpu:1"),
        SweepOptions((Objective("qps", "max"),), load="qps"),
        load=load_search(LoadRange("qps", 100, 3000), file, BaseConfig(), 12, {}),
    )
    result = run_sweep(request, ledger)
    assert result.best is None and "no feasible value" in result.confirmed


def test_a_search_of_the_files_own_says_which_point_is_best(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: run["speed"] <= 1700)

    machine = Machine(lambda p: float(p["q"]))
    result = sweep(ledger, machine, {}, search=search, confirm=2)
    assert dict(result.best or {}) == {"q": 1700}, "2000 is faster, but does not hold"
    assert "2 of 2" in result.confirmed


def test_a_search_that_finds_nothing_says_so(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: False)

    result = sweep(ledger, Machine(lambda p: float(p["q"])), {}, search=search)
    assert result.best is None and "no feasible value" in result.confirmed


def test_the_base_config_may_be_the_best(ledger: Ledger) -> None:
    machine = Machine(lambda p: 100.0 if p["a"] == 0 else 60.0)
    result = sweep(ledger, machine, {"a": (1, 2)}, {"a": 0}, confirm=2)
    assert dict(result.best or {}) == {"a": 0} and result.best_value == 100.0


def test_what_fails_when_confirmed_is_no_answer(ledger: Ledger) -> None:
    tries: dict[int, int] = {}

    def speed(point: Mapping[str, Any]) -> float:
        tries[point["a"]] = tries.get(point["a"], 0) + 1
        return 5.0 if tries[point["a"]] == 1 else -1.0

    result = sweep(ledger, Machine(speed), {"a": (1, 2)}, confirm=2)
    assert result.best is None and "no confirming run of 2 finalists held" in result.confirmed


@pytest.mark.parametrize(
    ("direction", "base", "best", "ratio"),
    [("max", 4.0, 8.0, 2.0), ("max", -10.0, -5.0, 2.0), ("min", 8.0, 4.0, 2.0)],
)
def test_a_gain_is_above_one_whatever_the_sign(
    ledger: Ledger, direction: Any, base: float, best: float, ratio: float
) -> None:
    def answer(point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        return RunOutcome(Status.OK, {"x": best if point["a"] else base}, seconds=0.1)

    machine = Machine(lambda p: 1.0)
    machine.bench = SimulatedBench(answer, lambda p: "")
    objective = Objective("x", direction)
    result = sweep(ledger, machine, {"a": (1,)}, {"a": 0}, objectives=(objective,), confirm=2)
    assert result.gain is not None and result.gain.ratio == ratio


def test_there_is_no_gain_over_nothing(ledger: Ledger) -> None:
    result = sweep(ledger, Machine(lambda p: 0.0), {"a": (1,)}, {"a": 0}, confirm=2)
    assert result.gain is None and result.best_value == 0.0
