"""Settings and load searched together: the best load so far is the bar for every setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import Any

import numpy as np
import pytest

from skipjack.core import Status, Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.search import Point, Repeat, config_of
from skipjack.search.load import JointLoad, LoadRange
from skipjack.search.scripted import ScriptedSearcher
from skipjack.testing.scripts import play, values_of

LOAD = ("qps", 100, 5000)
GRID: dict[str, list[Any]] = {
    "batch": [8, 16, 24, 32, 40, 48, 56, 64],
    "streams": [1, 2, 4],
    "precision": ["fp32", "int8"],
}


def limit(point: Point) -> float:
    """Batches and streams interact; 40 is worse than both of its neighbours."""
    best_batch = {1: 64, 2: 48, 4: 24}[point["streams"]]
    fit = 1.0 - abs(log(point["batch"] / best_batch)) * 0.25
    odd = 0.85 if point["batch"] == 40 else 1.0
    streams = {1: 0.8, 2: 1.0, 4: 0.93}[point["streams"]]
    return 1500 * fit * odd * streams * (1.3 if point["precision"] == "int8" else 1.0)


def service(seed: int = 0, unlucky: float = 0.03) -> Callable[[Point], bool]:
    """Holds up to about its limit; sometimes it fails whatever the load."""
    rng = np.random.default_rng(seed)

    def serve(point: Point) -> bool:
        lucky = rng.random() >= unlucky
        return bool(lucky and point["qps"] <= limit(point) * np.exp(0.015 * rng.standard_normal()))

    return serve


BEST = {"batch": 48, "streams": 2, "precision": "int8"}


def test_the_best_setting_is_found_in_far_fewer_runs_than_bisecting_all() -> None:
    search = JointLoad(LOAD, GRID, build_parameters=["precision", "batch"], runs=70)
    runs = play(search, service())
    assert len(runs) <= 70
    best = search.get_best()
    assert limit(best) >= 0.97 * limit(BEST)
    assert best["qps"] == pytest.approx(limit(best), rel=0.04)


def test_a_setting_that_fails_at_the_bar_is_left_soon() -> None:
    search = JointLoad(LOAD, GRID, runs=70)
    runs = play(search, service(1, unlucky=0.0))
    poor = [run for run in runs if limit(run.cross) < 0.7 * limit(BEST)]
    for setting in ({name: run.cross[name] for name in GRID} for run in poor):
        after = [run for run in runs[15:] if setting.items() <= run.cross.items()]
        assert len(after) <= 2, setting


def test_builds_that_promise_nothing_are_not_made() -> None:
    grid = {"version": ["v1", "v2", "v3", "v4", "v5", "v6"], "batch": [8, 16, 32, 64]}

    def serve(point: Point) -> bool:
        return point["qps"] <= {8: 300, 16: 500, 32: 800, 64: 700}[point["batch"]]

    frugal = JointLoad(LOAD, grid, build_parameters=["version"], build_runs=20.0, runs=30)
    lavish = JointLoad(LOAD, grid, build_parameters=["version"], build_runs=0.0, runs=30)
    made = [len(set(values_of(play(search, serve), "version"))) for search in (frugal, lavish)]
    assert made[0] < made[1]


def test_short_runs_search_and_full_runs_confirm() -> None:
    search = JointLoad(LOAD, GRID, screen={"seconds": 5}, confirm=5, runs=60)
    runs = play(search, service(2))
    short = [run.cross.get("seconds") == 5 for run in runs]
    confirming = short.count(False)
    assert 1 <= confirming <= 10
    assert short == [True] * (len(runs) - confirming) + [False] * confirming
    assert search.answer.load.runs <= confirming, "short runs are no part of the answer"


def test_what_short_runs_promise_is_taken_back_by_full_ones() -> None:
    def serve(point: Point) -> bool:
        flatters = 1.25 if point["batch"] == 8 and "seconds" in point else 1.0
        return point["qps"] <= {8: 1000, 16: 1150}[point["batch"]] * flatters

    search = JointLoad(LOAD, {"batch": [8, 16]}, screen={"seconds": 5}, confirm=6, runs=40)
    play(search, serve)
    assert search.get_best()["batch"] == 16


def test_points_may_be_listed() -> None:
    points = [{"batch": 8, "streams": 1}, {"batch": 64, "streams": 1}, {"batch": 48, "streams": 2}]
    search = JointLoad(LOAD, points=[{**point, "precision": "fp32"} for point in points], runs=30)
    play(search, service(3))
    assert search.answer.setting == {"batch": 48, "streams": 2, "precision": "fp32"}
    assert search.answer.settings == 3


def test_a_build_that_fails_ends_all_settings_that_need_it() -> None:
    def serve(point: Point) -> Status | bool:
        return Status.BUILD_ERROR if point["precision"] == "int8" else point["qps"] <= limit(point)

    search = JointLoad(LOAD, GRID, build_parameters=["precision"], runs=70)
    runs = play(search, serve)
    assert values_of(runs, "precision").count("int8") == 1
    assert search.answer.setting["precision"] == "fp32"
    assert ("it cannot be built") in {why for _, why in search.dropped}


def test_a_forbidden_setting_is_soon_done_with_and_costs_no_run() -> None:
    def serve(point: Point) -> Status | bool:
        forbidden = point["batch"] * point["streams"] > 100
        return Status.INFEASIBLE if forbidden else point["qps"] <= limit(point)

    search = JointLoad(LOAD, GRID, runs=60)
    runs = play(search, serve)
    forbidden = [run.cross for run in runs if run.status is Status.INFEASIBLE]
    settings = [tuple(point[name] for name in GRID) for point in forbidden]
    assert max(settings.count(setting) for setting in settings) <= 9
    assert search.answer.runs == len(runs) - len(forbidden)
    assert search.answer.setting["batch"] * search.answer.setting["streams"] <= 100


def test_nothing_holds() -> None:
    search = JointLoad(LOAD, {"batch": [8, 16]}, runs=40)
    runs = play(search, lambda point: False)
    assert len(runs) < 40
    with pytest.raises(SkipjackError, match="no feasible value of 'qps'"):
        search.get_best()


def test_everything_holds() -> None:
    search = JointLoad(LOAD, {"batch": [8, 16, 32]}, runs=40)
    runs = play(search, lambda point: True)
    assert search.get_best()["qps"] == 5000
    assert search.answer.load.verdict == "above"
    assert len(runs) < 30, "there is nothing to be gained"


def test_few_runs_are_still_a_search() -> None:
    search = JointLoad(LOAD, GRID, runs=5)
    assert len(play(search, service(6))) == 5
    assert search.answer.runs == 5


def test_a_load_without_bounds_is_refused() -> None:
    with pytest.raises(UsageError, match="a lower and an upper bound"):
        JointLoad(("qps", 100), GRID)  # type: ignore[arg-type]


def test_the_answer_says_how_it_came_about() -> None:
    search = JointLoad(LOAD, GRID, runs=60)
    runs = play(search, service(4))
    answer = search.answer
    assert answer.runs == len(runs)
    assert answer.load.low <= float(answer.load.value or 0) <= answer.load.high
    assert f"of {len(search.settings)} settings in {answer.runs} runs" in str(answer)
    dropped = [setting for setting, _ in search.dropped]
    assert answer.setting not in dropped
    assert all("does not sustain a load of" in why for _, why in search.dropped)


def test_the_same_runs_lead_to_the_same_points() -> None:
    search = JointLoad(LOAD, GRID, runs=30)
    first = [run.cross for run in play(search, service(5))]
    assert [run.cross for run in play(search, service(5))] == first


def test_a_point_that_is_run_again_says_so() -> None:
    points = JointLoad(("load", 1, 9), {"batch": [1, 2]}, runs=20).generate()
    seen: list[Mapping[str, Any]] = []
    point = next(points)
    for _ in range(8):
        assert isinstance(point, Repeat) == (dict(point) in seen)
        seen.append(dict(point))
        try:
            point = points.send(None)
        except StopIteration:
            break
    assert len(seen) > len({tuple(point.items()) for point in seen})


def test_loads_need_not_be_whole() -> None:
    search = JointLoad(LoadRange("rate", 0.1, 2.0, integer=False), {"batch": [8, 16]}, runs=30)
    play(search, lambda point: point["rate"] <= {8: 0.5, 16: 0.72}[point["batch"]])
    assert search.get_best()["rate"] == pytest.approx(0.72, rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameters": {"batch": []}}, "no settings"),
        ({"parameters": {"batch": range(100), "streams": range(100)}}, "10000 settings"),
        ({"parameters": {"batch": [1]}, "points": [{"batch": 1}]}, "not both"),
        ({"parameters": {"qps": [1, 2]}}, "'qps' is the load of JointLoad"),
        ({"parameters": {"batch": "abc"}}, "list of values for 'batch'"),
        ({"parameters": {"batch": [1]}, "confidence": 2.0}, "confidence"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        JointLoad(LOAD, **arguments)


def test_a_load_that_a_rule_forbids_leaves_lower_ones() -> None:
    def answer(point: Point) -> Trial:
        config = config_of(point)
        if point["qps"] > 1050:
            return Trial(config, Status.INFEASIBLE)
        limit = {1: 400, 2: 1000}[point["batch"]]
        return Trial(config, Status.OK if point["qps"] <= limit else Status.INVALID)

    search = JointLoad(("qps", 100, 3000), {"batch": [1, 2]})
    searcher = ScriptedSearcher(search)
    while batch := searcher.ask(1):
        searcher.tell(answer(batch[0]))
    best = search.get_best()
    assert best["batch"] == 2 and 900 <= best["qps"] <= 1050
