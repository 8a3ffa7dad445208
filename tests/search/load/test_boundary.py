"""The largest load that holds, found among runs that can be lucky or unlucky."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest

from skipjack.core import Status
from skipjack.errors import SkipjackError, UsageError
from skipjack.search import Point, Repeat, Run, Stats, do_send
from skipjack.search.load import Boundary
from skipjack.testing.scripts import play, values_of

Serve = Callable[[float], bool]


def service(limit: float, width: float = 0.0, unlucky: float = 0.0, seed: int = 0) -> Serve:
    """Holds up to about `limit`; sometimes it fails whatever the load."""
    rng = np.random.default_rng(seed)

    def serve(load: float) -> bool:
        if rng.random() < unlucky:
            return False
        if not width:
            return load <= limit
        return bool(rng.random() < 1.0 / (1.0 + exp((log(load) - log(limit)) / width)))

    return serve


def search(boundary: Boundary, serve: Serve) -> list[tuple[float, bool]]:
    """Run it to its end; every load with what came of it."""
    runs = play(boundary, lambda point: serve(point["load"]))
    return [(run.cross["load"], run["result_validity"] == "VALID") for run in runs]


def test_a_sharp_limit_is_found() -> None:
    boundary = Boundary("load", 100, 1000)
    search(boundary, service(637))
    answer = boundary.answer
    assert answer.verdict == "found"
    assert answer.value == pytest.approx(637, rel=0.02)
    assert answer.low <= 637 <= answer.high
    assert boundary.get_best() == {"load": answer.value}


def test_one_unlucky_run_does_not_fix_the_answer() -> None:
    runs = 0

    def serve(load: float) -> bool:
        nonlocal runs
        runs += 1
        return runs != 1 and load <= 800  # the very first run, far below the limit, fails

    boundary = Boundary("load", 100, 1000, runs=20)
    seen = search(boundary, serve)
    assert seen[0][0] < 400
    assert boundary.answer.value == pytest.approx(800, rel=0.05)


def test_one_lucky_run_does_not_fix_the_answer() -> None:
    runs = 0

    def serve(load: float) -> bool:
        nonlocal runs
        runs += 1
        return runs == 1 or load <= 150

    boundary = Boundary("load", 100, 1000, runs=20)
    search(boundary, serve)
    assert boundary.answer.value == pytest.approx(150, rel=0.05)


@pytest.mark.long
def test_the_stated_confidence_is_kept() -> None:
    right = 0
    for seed in range(40):
        limit = 100 * 10 ** np.random.default_rng(seed).uniform(0.1, 0.9)
        boundary = Boundary("load", 100, 1000, confidence=0.9)
        search(boundary, service(limit, width=0.02, seed=seed))
        right += boundary.answer.low - 1 <= limit <= boundary.answer.high + 1
    assert right >= 32  # 36 are expected; fewer than 32 happens once in forty times by chance


def test_most_answers_are_close_among_noise() -> None:
    off = []
    for seed in range(20):
        boundary = Boundary("load", 100, 1000)
        search(boundary, service(400, width=0.02, unlucky=0.05, seed=seed))
        off.append(abs(float(boundary.answer.value or 0) / 400 - 1.0))
    assert np.mean(np.array(off) <= 0.05) >= 0.9


def test_the_safe_load_is_below_the_limit_and_holds() -> None:
    chances = []
    for seed in range(20):
        boundary = Boundary("load", 100, 1000, safe=0.95)
        search(boundary, service(400, width=0.02, seed=seed))
        answer = boundary.answer
        assert answer.safe is not None and answer.value is not None
        assert answer.safe < answer.value
        chances.append(1.0 / (1.0 + (answer.safe / 400) ** 50))
    assert np.mean(chances) >= 0.93


def test_nothing_holds() -> None:
    boundary = Boundary("load", 100, 1000)
    seen = search(boundary, service(20))
    assert boundary.answer.verdict == "below"
    assert boundary.answer.value is None
    assert seen[-1][0] == 100, "the lower bound itself was run"
    assert len(seen) < 10
    assert "no load holds" in str(boundary.answer)
    with pytest.raises(SkipjackError, match="no feasible value of 'load'"):
        boundary.get_best()


def test_everything_holds() -> None:
    boundary = Boundary("load", 100, 1000)
    seen = search(boundary, service(10_000))
    assert boundary.answer.verdict == "above"
    assert boundary.get_best() == {"load": 1000}
    assert 1000 in [load for load, _ in seen]


def test_the_range_grows_if_it_may() -> None:
    boundary = Boundary("load", 100, 1000, grow=True, runs=24)
    search(boundary, service(5_200))
    assert boundary.answer.verdict == "found"
    assert boundary.answer.value == pytest.approx(5_200, rel=0.03)


def test_a_load_that_is_run_again_says_so() -> None:
    serve = service(5.5, width=0.1)
    points = Boundary("load", 1, 9, runs=20, confidence=0.999).generate()
    before: list[float] = []
    repeats = 0
    point = do_send(points)
    while point is not None:
        assert isinstance(point, Repeat) == (point["load"] in before)
        repeats += isinstance(point, Repeat)
        before.append(point["load"])
        validity = "VALID" if serve(point["load"]) else "INVALID"
        point = do_send(points, Run(point, Stats({"result_validity": validity})))
    assert repeats


def test_whole_loads_end_at_the_largest_that_holds() -> None:
    boundary = Boundary("load", 1, 9)
    seen = search(boundary, service(6))
    assert boundary.get_best() == {"load": 6}
    assert len(seen) < 16, "it ends when the answer is known"


def test_loads_need_not_be_whole() -> None:
    boundary = Boundary("load", 0.1, 1.0, integer=False, runs=20)
    search(boundary, service(0.537))
    assert boundary.answer.value == pytest.approx(0.537, rel=0.02)


def test_more_runs_make_the_interval_narrower() -> None:
    widths = []
    for runs in (8, 16, 32):
        boundary = Boundary("load", 100, 1000, runs=runs)
        search(boundary, service(400, width=0.03, seed=3))
        widths.append(boundary.answer.high - boundary.answer.low)
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("status", [Status.CRASH, Status.OUT_OF_MEMORY, Status.INVALID])
def test_runs_that_fail_did_not_hold(status: Status) -> None:
    boundary = Boundary("load", 100, 1000)
    play(boundary, lambda point: {} if point["load"] <= 300 else status)
    assert boundary.answer.value == pytest.approx(300, rel=0.03)


def test_a_predicate_decides_what_holds() -> None:
    boundary = Boundary("load", 100, 1000, predicate=lambda run: run["p99_ms"] <= 15)
    play(boundary, lambda point: {"p99_ms": point["load"] / 50})
    assert boundary.answer.value == pytest.approx(750, rel=0.03)


def test_a_forbidden_load_says_nothing_about_the_limit() -> None:
    def answer(point: Point) -> Status | bool:
        return Status.INFEASIBLE if point["load"] == 3 else point["load"] <= 6

    boundary = Boundary("load", 1, 9)
    asked = values_of(play(boundary, answer), "load")
    assert asked.count(3) == 1
    assert boundary.get_best() == {"load": 6}


def test_if_all_is_forbidden_the_search_ends() -> None:
    boundary = Boundary("load", 1, 9)
    runs = play(boundary, lambda point: Status.INFEASIBLE)
    assert len(runs) <= 9
    assert boundary.answer.runs == 0


def test_runs_that_are_known_count_but_cost_nothing() -> None:
    known = [(390.0, True), (410.0, False)] * 4
    boundary = Boundary("load", 100, 1000, runs=4, known=known)
    seen = search(boundary, service(400))
    assert len(seen) <= 4
    assert all(350 < load < 450 for load, _ in seen)
    assert boundary.answer.runs == len(seen) + 8


def test_the_same_runs_lead_to_the_same_points() -> None:
    boundary = Boundary("load", 100, 1000)
    first = search(boundary, service(400, width=0.03, seed=5))
    assert search(boundary, service(400, width=0.03, seed=5)) == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 10), "above 0"),
        ((10, 10), "above 0"),
        ((1.5, 10), "whole number"),
    ],
)
def test_bad_bounds_are_refused(arguments: tuple[float, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Boundary("load", *arguments)


def test_shares_lie_between_0_and_1() -> None:
    with pytest.raises(UsageError, match="confidence of Boundary of 'load'"):
        Boundary("load", 1, 10, confidence=90)
