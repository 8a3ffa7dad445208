"""The loop of a sweep, on benchmarks that are functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.study import Budget
from skipjack.core.trial import Status
from skipjack.errors import UsageError
from skipjack.ledger import Ledger
from skipjack.search.scripted import Bisect, Points, SearcherInterface, Step
from skipjack.sweep.configs.base_config import BaseConfig
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.load_goal import LoadGoal, load_search
from skipjack.sweep.options import SweepOptions
from skipjack.sweep.ordering import build_part
from skipjack.sweep.outcome import Outcome
from skipjack.sweep.result import SweepResult
from skipjack.sweep.simulated_bench import SimulatedBench
from skipjack.sweep.sweep import SweepRequest, run_sweep
from skipjack.sweep.workload import Workload

Speed = Callable[[Mapping[str, Any]], float]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path) as opened:
        yield opened


class Machine:
    """A benchmark whose speed is a function of the point; counts its runs."""

    def __init__(self, speed: Speed, no_rebuild: tuple[str, ...] | None = None) -> None:
        self.runs: list[tuple[Config, dict[str, Any]]] = []
        self._speed = speed
        self.bench = SimulatedBench(self._answer, lambda p: build_part(p, no_rebuild).key)

    def _answer(self, point: Config, settings: Mapping[str, Any]) -> Outcome:
        self.runs.append((point, dict(settings)))
        speed = self._speed(point)
        if speed < 0:
            return Outcome(Status.CRASH, reason="it fell over", seconds=0.1)
        return Outcome(Status.OK, {"speed": speed}, seconds=0.1)

    @property
    def points(self) -> list[dict[str, Any]]:
        return [dict(point) for point, _ in self.runs]


def sweep(
    ledger: Ledger,
    machine: Machine,
    parameters: Mapping[str, tuple[Any, ...]],
    base: Mapping[str, Any] | None = None,
    *,
    no_rebuild: tuple[str, ...] | None = None,
    is_valid: Any = None,
    search: Callable[[], SearcherInterface] | None = None,
    searcher: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    retry_failed: bool = False,
    start_over: bool = False,
    run_timeout_s: float = float("inf"),
    **options: Any,
) -> SweepResult:
    file = SweepFile(Path("knobs.json"), parameters, no_rebuild, is_valid, search)
    options.setdefault("objectives", (Objective("speed", "max"),))
    options.setdefault("confirm", 0)
    request = SweepRequest(
        file,
        BaseConfig(base, "base.json") if base else BaseConfig(),
        machine.bench,
        Workload("knobs", "0" * 16),
        "cpu",
        "cpu:1",
        SweepOptions(**options),
        searcher,
        retry_failed=retry_failed,
        start_over=start_over,
        run_timeout_s=run_timeout_s,
    )
    return run_sweep(request, ledger, stop)


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


def test_running_again_runs_nothing_again(ledger: Ledger) -> None:
    machine = Machine(lambda p: float(p["a"]))
    sweep(ledger, machine, {"a": (1, 2, 3)}, confirm=2)
    made = len(machine.runs)
    result = sweep(ledger, machine, {"a": (1, 2, 3)}, confirm=2)
    assert len(machine.runs) == made
    assert all(trial.cached for trial in result.trials)
    assert dict(result.best or {}) == {"a": 3}


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


def test_a_search_may_name_only_what_the_base_config_has(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0)
    with pytest.raises(UsageError, match=r"names qqs, which is not in the base config"):
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


def test_the_largest_load_that_holds_is_found_with_its_setting(ledger: Ledger) -> None:
    limits = {8: 700.0, 16: 1200.0, 32: 900.0}

    def answer(point: Config, settings: Mapping[str, Any]) -> Outcome:
        held = point["qps"] <= limits[int(point["batch"])]  # type: ignore[operator]
        return Outcome(Status.OK if held else Status.INVALID, {}, seconds=0.1)

    bench = SimulatedBench(answer, lambda p: str(p["batch"]))
    file = SweepFile(Path("load.json"), {"batch": (8, 16, 32)})
    load = load_search(LoadGoal("qps", 100, 3000), file, BaseConfig(), None, {})
    request = SweepRequest(
        file,
        BaseConfig({"batch": 8, "qps": 600}, "base.json"),
        bench,
        Workload("load", "0" * 16),
        "cpu",
        "cpu:1",
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
    bench = SimulatedBench(lambda p, s: Outcome(Status.INVALID, {}, "too slow"), lambda p: "")
    file = SweepFile(Path("load.json"), {})
    request = SweepRequest(
        file,
        BaseConfig(),
        bench,
        Workload("load", "0" * 16),
        "cpu",
        "cpu:1",
        SweepOptions((Objective("qps", "max"),), load="qps"),
        load=load_search(LoadGoal("qps", 100, 3000), file, BaseConfig(), 12, {}),
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
    def answer(point: Config, settings: Mapping[str, Any]) -> Outcome:
        return Outcome(Status.TIMEOUT, reason="it took too long", seconds=1.0)

    machine = Machine(lambda p: 1.0)
    machine.bench = SimulatedBench(answer, lambda p: "")
    sweep(ledger, machine, {"a": (1,)}, run_timeout_s=1.0)
    again = sweep(ledger, machine, {"a": (1,)}, run_timeout_s=1.0)
    assert again.trials[0].cached
    longer = sweep(ledger, machine, {"a": (1,)}, run_timeout_s=9.0)
    assert not longer.trials[0].cached


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
    assert result.best is None and "none of 2 finalists held" in result.confirmed


def test_a_requirement_that_one_run_cannot_answer_fails_that_run(ledger: Ledger) -> None:
    def answer(point: Config, settings: Mapping[str, Any]) -> Outcome:
        metrics = {"speed": 1.0} | ({} if point["a"] == 2 else {"l.p": 3.0})
        return Outcome(Status.OK, metrics, seconds=0.1)

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
    with pytest.raises(UsageError, match="only forbidden points"):
        sweep(ledger, machine, {}, search=Endless, is_valid=lambda c: False, budget=Budget(5))


def test_points_may_be_run_as_they_are_listed(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0, no_rebuild=("r",))
    file = SweepFile(Path("knobs.json"), {"r": (1, 2), "b": (1, 2)}, ("r",))
    request = SweepRequest(
        file,
        BaseConfig(),
        machine.bench,
        Workload("knobs", "0" * 16),
        "cpu",
        "cpu:1",
        SweepOptions((Objective("speed", "max"),), confirm=0),
        in_order=True,
    )
    run_sweep(request, ledger)
    assert [(p["r"], p["b"]) for p in machine.points] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_parameter_without_values_is_nothing_to_run(ledger: Ledger) -> None:
    machine = Machine(lambda p: 1.0)
    result = sweep(ledger, machine, {"a": (), "b": (1, 2)}, {"a": 1, "b": 1}, confirm=2)
    assert not machine.runs and not result.trials
    assert result.notes == ("a has no values, so there is nothing to run",)


def test_the_last_run_of_a_budget_reaches_the_search(ledger: Ledger) -> None:
    def search() -> SearcherInterface:
        return Bisect("q", 500, 2500, 100, lambda run: run["speed"] <= 1700)

    machine = Machine(lambda p: float(p["q"]))
    result = sweep(ledger, machine, {}, search=search, budget=Budget(3))
    assert [point["q"] for point in machine.points] == [1500, 2000, 1700]
    assert dict(result.best or {}) == {"q": 1700}


@pytest.mark.parametrize(
    ("direction", "base", "best", "ratio"),
    [("max", 4.0, 8.0, 2.0), ("max", -10.0, -5.0, 2.0), ("min", 8.0, 4.0, 2.0)],
)
def test_a_gain_is_above_one_whatever_the_sign(
    ledger: Ledger, direction: Any, base: float, best: float, ratio: float
) -> None:
    def answer(point: Config, settings: Mapping[str, Any]) -> Outcome:
        return Outcome(Status.OK, {"x": best if point["a"] else base}, seconds=0.1)

    machine = Machine(lambda p: 1.0)
    machine.bench = SimulatedBench(answer, lambda p: "")
    objective = Objective("x", direction)
    result = sweep(ledger, machine, {"a": (1,)}, {"a": 0}, objectives=(objective,), confirm=2)
    assert result.gain is not None and result.gain.ratio == ratio


def test_there_is_no_gain_over_nothing(ledger: Ledger) -> None:
    result = sweep(ledger, Machine(lambda p: 0.0), {"a": (1,)}, {"a": 0}, confirm=2)
    assert result.gain is None and result.best_value == 0.0
