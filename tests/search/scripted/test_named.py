"""The project's own searchers, returned from a sweep file."""

from typing import Any

import pytest

from skipjack.core import Status
from skipjack.errors import SkipjackError, SpaceError, UsageError
from skipjack.search import Point
from skipjack.search.scripted import Composer, Named, Step
from skipjack.testing.scripts import play

GRID: dict[str, list[Any]] = {
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "streams": [1, 2, 3, 4],
    "graphs": [False, True],
}


def speed(point: Point) -> dict[str, float]:
    return {"speed": 100 - abs(point["batch"] - 16) - 3 * abs(point["streams"] - 3)}


@pytest.mark.parametrize(
    "name", ["genetic", "simulated_annealing", "hill_climbing", "random", "exhaustive", "auto"]
)
def test_every_searcher_serves_by_its_name(name: str) -> None:
    searcher = Named(name, GRID, metric="speed", trials=56)
    runs = play(searcher, speed)
    assert runs[0].cross == {"batch": 1, "streams": 1, "graphs": False}
    assert len({str(run.cross) for run in runs}) == len(runs) <= 56
    best = max(runs, key=lambda run: float(run["speed"]))
    assert speed(searcher.get_best()) == {"speed": best["speed"]}
    assert best["speed"] == 100


def test_less_can_be_better() -> None:
    searcher = Named("exhaustive", GRID, metric="speed", direction="min")
    assert len(play(searcher, speed)) == 56
    assert searcher.get_best()["batch"] == 64


def test_parameters_are_given_in_the_name() -> None:
    def points(name: str) -> list[Point]:
        return [run.cross for run in play(Named(name, GRID, metric="speed", trials=30), speed)]

    assert points("genetic:population=12") == points("genetic")
    assert points("genetic:population=2,mutation=1") != points("genetic")
    with pytest.raises(UsageError, match="searcher genetic has no parameter 'size'"):
        Named("genetic:size=3", GRID, metric="speed")


def test_the_budget_and_the_seed_are_kept() -> None:
    def points(seed: int) -> list[Point]:
        runs = play(Named("random", GRID, metric="speed", trials=7, seed=seed), speed)
        return [run.cross for run in runs]

    assert points(1) == points(1) != points(2)
    assert len(points(1)) == 7


def test_searches_that_do_not_learn_can_be_listed_beforehand() -> None:
    searcher = Named("exhaustive", GRID, metric="speed")
    assert not searcher.is_dynamic
    assert len([*searcher.generate()]) == 56
    assert Named("genetic", GRID, metric="speed").is_dynamic


def test_constraints_are_kept_and_failing_runs_are_survived() -> None:
    searcher = Named("genetic", GRID, metric="speed", trials=20, constraints=["batch <= 8"])
    runs = play(searcher, lambda p: Status.CRASH if p["streams"] == 3 else speed(p))
    assert len(runs) == 20
    assert max(run.cross["batch"] for run in runs) == 8
    assert searcher.get_best()["streams"] in (2, 4)
    play(searcher, lambda point: Status.TIMEOUT)
    with pytest.raises(SkipjackError, match=r"no run of Named\('genetic'\) has the metric 'speed'"):
        searcher.get_best()


def test_it_can_be_a_part_of_a_composer() -> None:
    named = Named("exhaustive", {"x": [1, 2]}, metric="speed")
    runs = play(Composer([named, Step("y", 1, 3, lambda y: y + 1)], None), lambda p: {"speed": 1})
    assert [run.cross for run in runs] == [{"x": 1, "y": 1}, {"x": 2, "y": 1}, {"x": 2, "y": 2}]


def test_a_metric_that_is_not_there_is_named() -> None:
    searcher = Named("genetic", GRID, metric="velocity")
    wanted = r"Named\('genetic'\) uses the metric 'velocity', but the run has no metric 'velocity'"
    with pytest.raises(UsageError, match=wanted):
        play(searcher, speed)
    with pytest.raises(UsageError, match="uses the metric 'velocity', but 'x' is not a number"):
        play(searcher, lambda point: {"velocity": "x"})


def test_mistakes_are_refused_before_the_search() -> None:
    with pytest.raises(UsageError, match="unknown searcher 'genetics'"):
        Named("genetics", GRID, metric="speed")
    with pytest.raises(UsageError, match="must be 'min' or 'max', not 'up'"):
        Named("genetic", GRID, metric="speed", direction="up")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a list of values for 'x', not 3"):
        Named("genetic", {"x": 3}, metric="speed")  # type: ignore[dict-item]
    with pytest.raises(SpaceError, match="no legal config"):
        Named("genetic", GRID, metric="speed", constraints=["batch > 99"])
