"""The loop of a sweep, on benchmarks that are functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from simulated_sweeps import Machine, sweep

from skipjack.core import Budget, Config, Objective, Status
from skipjack.errors import UsageError
from skipjack.ledger import Ledger
from skipjack.search import Points, SearcherInterface
from skipjack.search.load import Bisect
from skipjack.search.scripted import Step
from skipjack.sweep.bench import RunOutcome, SimulatedBench, Workload
from skipjack.sweep.configs import BaseConfig
from skipjack.sweep.engine import SweepContext, SweepOptions, SweepRequest, SweepResult, run_sweep
from skipjack.sweep.files import SweepFile


def test_all_combinations_are_run_and_the_best_is_named(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"] * 10 + p["b"]))
    result = sweep(ledger, machine, {"a": (1, 2), "b": (3, 4, 5)})
    assert len(machine.runs) == 6
    assert dict(result.best or {}) == {"a": 2, "b": 5}
    assert result.best_value == 25.0


def test_points_that_share_a_build_are_run_in_a_row(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0, no_rebuild=("audio",))
    parameters = {"audio": (128, 256, 512), "gpu": (1, 2)}
    result = sweep(ledger, machine, parameters, no_rebuild=("audio",))
    assert [point["gpu"] for point in machine.points] == [1, 1, 1, 2, 2, 2]
    assert [point["audio"] for point in machine.points] == [128, 256, 512] * 2
    assert result.builds == 2


def test_a_point_that_fails_is_recorded_and_the_sweep_goes_on(ledger: Ledger) -> None:
    machine = Machine(lambda p: -1.0 if p["a"] == 2 else p["a"])
    result = sweep(ledger, machine, {"a": (1, 2, 3)})
    assert dict(result.best or {}) == {"a": 3}
    (failed,) = [trial for trial in result.trials if trial.status is Status.CRASH]
    assert failed.reason == "it fell over" and dict(failed.point) == {"a": 2}


def test_a_forbidden_point_is_told_as_such_and_not_run(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: run["speed"] <= 1700)

    machine = Machine(lambda p: float(p["q"]))
    result = sweep(ledger, machine, {}, search=search, is_valid=lambda c: c["q"] != 2000)
    assert 2000 not in [point["q"] for point in machine.points]
    assert [point["q"] for point in machine.points] == [1500, 1700, 1800]
    refused = [trial for trial in result.trials if trial.status is Status.INFEASIBLE]
    assert [dict(trial.point) for trial in refused] == [{"q": 2000}]


def test_a_sweep_that_was_stopped_goes_on_where_it_was(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    stopped = sweep(ledger, machine, {"a": (1, 2, 3)}, stop=lambda: len(machine.runs) >= 2)
    assert stopped.interrupted and len(machine.runs) == 2
    sweep(ledger, machine, {"a": (1, 2, 3)})
    assert [point["a"] for point in machine.points] == [1, 2, 3]


def test_a_search_that_depends_on_results_retraces_its_path(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: run["speed"] <= 1700)

    machine = Machine(lambda p: float(p["q"]))
    sweep(ledger, machine, {}, search=search, stop=lambda: len(machine.runs) >= 2)
    sweep(ledger, machine, {}, search=search)
    assert [point["q"] for point in machine.points] == [1500, 2000, 1700, 1800]


def test_values_that_are_added_to_a_file_cost_only_themselves(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    sweep(ledger, machine, {"a": (1, 2)})
    sweep(ledger, machine, {"a": (1, 2, 3)})
    assert [point["a"] for point in machine.points] == [1, 2, 3]


def test_a_metric_that_is_not_there_is_said_after_the_first_run(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    with pytest.raises(UsageError, match=r"no metric 'sped'.*did you mean speed"):
        sweep(ledger, machine, {"a": (1, 2)}, objectives=(Objective("sped", "max"),))
    assert len(machine.runs) == 1
    sweep(ledger, machine, {"a": (1, 2)})
    assert len(machine.runs) == 2, "what was measured under the wrong name is kept"


def test_what_a_run_must_satisfy_makes_it_invalid_otherwise(ledger: Ledger) -> None:
    objective = Objective("speed", "max", ("speed <= 2",))
    machine = Machine(lambda p: float(p["a"]))
    result = sweep(ledger, machine, {"a": (1, 2, 3)}, objectives=(objective,))
    assert dict(result.best or {}) == {"a": 2}
    (broken,) = [trial for trial in result.trials if trial.status is Status.INVALID]
    assert broken.reason == "requirement `speed <= 2` is not met"


def test_a_budget_ends_the_search(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    sweep(ledger, machine, {"a": tuple(range(10))}, budget=Budget(4))
    assert len(machine.runs) == 4


@pytest.mark.parametrize("name", ["genetic", "simulated_annealing", "hill_climbing", "random"])
def test_searchers_of_kernels_serve_sweeps(ledger: Ledger, name: str) -> None:
    machine = Machine(lambda p: -float(abs(p["a"] - 7)) + (p["kind"] == "x") + 100)
    parameters = {"a": tuple(range(12)), "kind": ("x", "y", None)}
    result = sweep(
        ledger,
        machine,
        parameters,
        searcher=name,
        budget=Budget(20),
        is_valid=lambda c: c["a"] != 3,
    )
    assert len(machine.runs) == 20
    assert all(point["a"] != 3 for point in machine.points)
    assert (result.best_value or 0) > 97


def test_parameters_of_a_searcher_make_another_study(ledger: Ledger) -> None:
    def recorded(searcher: str) -> set[str]:
        machine = Machine(lambda p: float(p["a"]))
        sweep(ledger, machine, {"a": tuple(range(9))}, searcher=searcher, budget=Budget(3))
        return {study.searcher for study in ledger.studies()}

    assert recorded("genetic") == recorded("genetic:population=12") == {"genetic"}
    assert recorded("genetic:population=30") == {"genetic", "genetic:population=30"}
    assert len(ledger.studies()) == 2


def test_a_search_may_name_only_what_the_base_config_has(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0)
    with pytest.raises(UsageError, match=r"uses qqs, which is not in the base config"):
        sweep(
            ledger,
            machine,
            {},
            {"qps": 1},
            search=lambda: Step("qqs", 1, 4, lambda x: x + 1),
        )
    assert not machine.runs


def test_points_from_one_search_share_builds_across_time(ledger: Ledger) -> None:
    class Back(SearcherInterface):
        is_dynamic = True

        def generate(self) -> Points:
            for build, run in ((1, 1), (2, 1), (1, 2)):
                yield {"build": build, "run": run}

    machine = Machine(lambda p: 1.0, no_rebuild=("run",))
    result = sweep(ledger, machine, {}, search=Back, no_rebuild=("run",))
    assert len(machine.runs) == 3 and result.builds == 2


def run_twice(ledger: Ledger, machine: Machine, **options: Any) -> SweepResult:
    sweep(ledger, machine, {"a": (1,)}, **options)
    return sweep(ledger, machine, {"a": (1,)})


def test_starting_over_lasts(ledger: Ledger) -> None:
    speeds = iter([1.0, 99.0])
    machine = Machine(lambda p: next(speeds))
    sweep(ledger, machine, {"a": (1,)})
    result = run_twice(ledger, machine, start_over=True)
    assert result.best_value == 99.0 and len(machine.runs) == 2


def test_what_worked_at_the_second_try_stays_so(ledger: Ledger) -> None:
    speeds = iter([-1.0, 5.0])
    machine = Machine(lambda p: next(speeds))
    sweep(ledger, machine, {"a": (1,)})
    result = run_twice(ledger, machine, retry_failed=True)
    assert result.best_value == 5.0 and len(machine.runs) == 2


def test_a_longer_time_limit_is_another_chance(ledger: Ledger) -> None:
    def answer(point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        return RunOutcome(Status.TIMEOUT, reason="it took too long", seconds=1.0)

    machine = Machine(lambda p: 1.0)
    machine.bench = SimulatedBench(answer, lambda p: "")
    sweep(ledger, machine, {"a": (1,)}, run_timeout_s=1.0)
    again = sweep(ledger, machine, {"a": (1,)}, run_timeout_s=1.0)
    assert again.trials[0].cached
    longer = sweep(ledger, machine, {"a": (1,)}, run_timeout_s=9.0)
    assert not longer.trials[0].cached


def test_a_requirement_that_one_run_cannot_answer_fails_that_run(ledger: Ledger) -> None:
    def answer(point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        metrics = {"speed": 1.0} | ({} if point["a"] == 2 else {"l.p": 3.0})
        return RunOutcome(Status.OK, metrics, seconds=0.1)

    machine = Machine(lambda p: 1.0)
    machine.bench = SimulatedBench(answer, lambda p: "")
    objective = Objective("speed", "max", ("l_p <= 15",))
    result = sweep(ledger, machine, {"a": (1, 2, 3)}, objectives=(objective,))
    assert [trial.status for trial in result.trials] == [Status.OK, Status.INVALID, Status.OK]


def test_a_search_of_forbidden_points_ends(ledger: Ledger) -> None:
    class Endless(SearcherInterface):
        is_dynamic = True

        def generate(self) -> Points:
            number = 0
            while True:
                number += 1
                yield {"a": number}

    machine = Machine(lambda p: 1.0)
    with pytest.raises(UsageError, match="forbidden points in a row"):
        sweep(ledger, machine, {}, search=Endless, is_valid=lambda c: False, budget=Budget(5))


def test_points_may_be_run_as_they_are_listed(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0, no_rebuild=("r",))
    file = SweepFile(Path("knobs.json"), {"r": (1, 2), "b": (1, 2)}, ("r",))
    request = SweepRequest(
        file,
        BaseConfig(),
        machine.bench,
        SweepContext(Workload("knobs", "0" * 16), "cpu", "cpu:1"),
        SweepOptions((Objective("speed", "max"),), confirm=0),
        in_order=True,
    )
    run_sweep(request, ledger)
    assert [(p["r"], p["b"]) for p in machine.points] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_parameter_without_values_is_nothing_to_run(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0)
    result = sweep(ledger, machine, {"a": (), "b": (1, 2)}, {"a": 1, "b": 1}, confirm=2)
    assert not machine.runs and not result.trials
    assert result.notes == ("there is nothing to run: no values for a",)


def test_the_last_run_of_a_budget_reaches_the_search(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: run["speed"] <= 1700)

    machine = Machine(lambda p: float(p["q"]))
    result = sweep(ledger, machine, {}, search=search, budget=Budget(3))
    assert [point["q"] for point in machine.points] == [1500, 2000, 1700]
    assert dict(result.best or {}) == {"q": 1700}


def test_running_again_runs_nothing_again(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    sweep(ledger, machine, {"a": (1, 2, 3)}, confirm=2)
    made = len(machine.runs)
    result = sweep(ledger, machine, {"a": (1, 2, 3)}, confirm=2)
    assert len(machine.runs) == made
    assert all(trial.cached for trial in result.trials)
    assert dict(result.best or {}) == {"a": 3}
