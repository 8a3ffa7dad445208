"""GreedyStepper: one coordinate after the other, the last one, too."""

from typing import Any

import pytest

from skipjack.core import Status
from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.search import Point, Run
from skipjack.search.scripted import GreedyStepper, Overlay, Step
from skipjack.testing.scripts import play

STEPS = (Step("a", 1, 6, lambda x: x + 1), Step("b", 10, 60, lambda x: x + 10))


def better(best: Run, new: Run) -> bool:
    verdict: bool = new["score"] > best["score"]
    return verdict


def score(point: Point) -> dict[str, float]:
    return {"score": -abs(point["a"] - 3) - abs(point["b"] - 20) / 10}


def places(runs: list[Run]) -> list[tuple[Any, ...]]:
    return [tuple(run.cross.values()) for run in runs]


def test_the_documented_trace_goes_on_with_the_last_stepper() -> None:
    searcher = GreedyStepper(STEPS, better)
    trace = places(play(searcher, score))
    assert trace == [(1, 10), (2, 10), (3, 10), (4, 10), (3, 20), (3, 30)]
    assert searcher.get_best() == {"a": 3, "b": 20}


def test_a_single_stepper_is_moved_as_far_as_it_helps() -> None:
    searcher = GreedyStepper([STEPS[0]], better)
    runs = play(searcher, lambda point: {"score": -abs(point["a"] - 4)})
    assert places(runs) == [(1,), (2,), (3,), (4,), (5,)]
    assert searcher.get_best() == {"a": 4}


def test_a_stepper_that_always_helps_ends_at_its_last_value() -> None:
    searcher = GreedyStepper(STEPS, better)
    runs = play(searcher, lambda point: {"score": point["a"] + point["b"]})
    assert places(runs)[-1] == (5, 50)
    assert len(runs) == 1 + 4 + 4


def test_whatever_runs_is_better_than_what_fails() -> None:
    searcher = GreedyStepper(STEPS, better)
    runs = play(searcher, lambda point: score(point) if point["a"] in (2, 3) else Status.CRASH)
    assert places(runs) == [(1, 10), (2, 10), (3, 10), (4, 10), (3, 20), (3, 30)]
    with pytest.raises(SkipjackError, match="no feasible point of a, b"):
        failing = GreedyStepper(STEPS, better)
        assert places(play(failing, lambda point: Status.TIMEOUT)) == [(1, 10), (2, 10), (1, 20)]
        failing.get_best()


def test_what_the_predicate_raises_is_blamed_on_it() -> None:
    searcher = GreedyStepper(STEPS, lambda best, new: new["speed"] > 1)
    with pytest.raises(ForeignError, match="the predicate of GreedyStepper raised MissingStat"):
        play(searcher, score)


def test_only_steps_of_different_parameters_can_be_moved() -> None:
    with pytest.raises(UsageError, match="moves Steps only, not Overlay"):
        GreedyStepper([Overlay(STEPS[0], {})], better)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="two Steps of 'a'"):
        GreedyStepper([STEPS[0], STEPS[0]], better)
    with pytest.raises(UsageError, match="at least one Step"):
        GreedyStepper([], better)
