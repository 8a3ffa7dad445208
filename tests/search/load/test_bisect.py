"""Bisect: the documented order of tests, and the lower bound that is no longer believed blindly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.core import Status
from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.search import Run, Stats
from skipjack.search.load import Bisect
from skipjack.testing.scripts import play, values_of


def valid(run: Run) -> bool:
    verdict: bool = run.stats["result_validity"] == "VALID"
    return verdict


def bisect(lower: int, upper: int, step: int) -> Bisect:
    return Bisect("q", lower, upper, step, valid)


def order_of(searcher: Bisect, limit: float) -> list[int]:
    return values_of(play(searcher, lambda point: bool(point["q"] <= limit)), "q")


@pytest.mark.parametrize(
    ("bounds", "limit", "order", "best"),
    [
        ((3000, 4650, 50), 4237, [3800, 4200, 4400, 4300, 4250], 4200),
        ((3000, 4650, 50), math.inf, [3800, 4200, 4400, 4500, 4550, 4600], 4600),
        ((3000, 4650, 50), 3000, [3800, 3400, 3200, 3100, 3050, 3000], 3000),
        ((500, 2500, 100), 1700, [1500, 2000, 1700, 1800], 1700),
        ((0, 3, 1), 1, [1, 2], 1),
        ((100, 103, 1), 100, [101, 100], 100),
        ((7, 9, 1), 8, [8], 8),
        ((7, 9, 1), 7, [8, 7], 7),
        ((7, 8, 1), 7, [7], 7),
    ],
)
def test_the_documented_order(
    bounds: tuple[int, int, int], limit: float, order: list[int], best: int
) -> None:
    searcher = bisect(*bounds)
    assert order_of(searcher, limit) == order
    assert searcher.get_best() == {"q": best}


def test_without_a_good_value_the_lower_bound_is_run_last_and_there_is_no_best() -> None:
    searcher = bisect(3000, 4650, 50)
    assert order_of(searcher, 0) == [3800, 3400, 3200, 3100, 3050, 3000]
    with pytest.raises(SkipjackError, match=r"no feasible value of 'q': no run from 3000 to 4600"):
        searcher.get_best()


def test_a_negative_step_mirrors_it() -> None:
    searcher = bisect(2500, 500, -100)
    runs = play(searcher, lambda point: bool(point["q"] >= 1300))
    assert values_of(runs, "q") == [1500, 1000, 1300, 1200]
    assert searcher.get_best() == {"q": 1300}


@given(
    st.integers(-50, 50),
    st.integers(1, 60),
    st.integers(-7, 7).filter(bool),
    st.integers(-1, 60),
)
def test_it_finds_the_last_good_value_of_every_monotone_truth(
    lower: int, count: int, step: int, last_good: int
) -> None:
    candidates = range(lower, lower + count * step, step)
    good = set(candidates[: last_good + 1])
    searcher = bisect(candidates.start, candidates.stop, step)
    order = values_of(play(searcher, lambda point: point["q"] in good), "q")
    assert len(set(order)) == len(order) <= math.ceil(math.log2(count)) + 1
    if good:
        assert searcher.get_best() == {"q": candidates[min(last_good, count - 1)]}
    else:
        with pytest.raises(SkipjackError, match="no feasible value"):
            searcher.get_best()


def test_runs_that_failed_are_bad_and_never_shown_to_the_predicate() -> None:
    searcher = Bisect("q", 500, 2500, 100, lambda run: run["p99"] < 10)

    def answer(point: object) -> Status | dict[str, float]:
        q = point["q"]  # type: ignore[index]
        return {"p99": 5.0} if q < 2000 else Status.INFEASIBLE

    assert values_of(play(searcher, answer), "q") == [1500, 2000, 1700, 1800, 1900]
    assert searcher.get_best() == {"q": 1900}


def test_was_good_takes_a_run_bare_stats_or_nothing() -> None:
    searcher = bisect(0, 9, 1)
    assert searcher.was_good(Run({"q": 4}, Stats({"result_validity": "VALID"})))
    assert searcher.was_good(Run({"q": 4}, {"result_validity": "VALID"}))
    assert not searcher.was_good(Run({"q": 4}, Stats({"result_validity": "VALID"}, Status.CRASH)))
    assert searcher.was_good({"result_validity": "VALID"})
    assert not searcher.was_good(Stats({"result_validity": "INVALID"}))
    assert not searcher.was_good(None)


def test_what_a_predicate_raises_names_the_searcher_and_its_parameter() -> None:
    searcher = Bisect("q", 0, 9, 1, lambda run: run["p99"] < 10)
    wanted = "the predicate of Bisect of 'q' raised MissingStatError: the run has no metric 'p99'"
    with pytest.raises(ForeignError, match=wanted):
        play(searcher, lambda point: True)


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ((500, 2500, 0), "step_size of Bisect of 'q' must not be 0"),
        ((500, 2500, -100), "Bisect of 'q' has no values from 500 to 2500 in steps of -100"),
        ((2500, 500, 100), "Bisect of 'q' has no values from 2500 to 500 in steps of 100"),
        ((500, 500, 100), "has no values from 500 to 500 in steps of 100; .* bounds that differ"),
        ((0.5, 2500, 100), "lower_bound of Bisect of 'q' must be a whole number, not 0.5"),
        ((500, 2500.0, 100), "upper_bound of Bisect of 'q' must be a whole number, not 2500.0"),
        ((500, 2500, "1"), "step_size of Bisect of 'q' must be a whole number, not '1'"),
        ((500, 2500, True), "step_size of Bisect of 'q' must be a whole number, not True"),
    ],
)
def test_a_wrong_argument_gets_a_sentence_that_names_it(
    bounds: tuple[int, int, int], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        bisect(*bounds)


def test_integers_of_numpy_will_do() -> None:
    first = next(bisect(np.int64(0), np.int64(9), np.int64(1)).generate())  # type: ignore[arg-type]
    assert first == {"q": 4}
    assert type(first["q"]) is int


def test_a_second_search_starts_anew() -> None:
    searcher = bisect(0, 9, 1)
    assert order_of(searcher, 5) == order_of(searcher, 5)
    order_of(searcher, -1)
    with pytest.raises(SkipjackError):
        searcher.get_best()
