"""FindUpperBound: doubling, then bisecting the last octave."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import SkipjackError, UsageError
from skipjack.search import Run
from skipjack.search.load import FindUpperBound
from skipjack.search.load.bisect import MAX_DOUBLINGS
from skipjack.testing.scripts import play, values_of


def valid(run: Run) -> bool:
    verdict: bool = run["result_validity"] == "VALID"
    return verdict


def order_of(searcher: FindUpperBound, limit: float) -> list[int]:
    return values_of(play(searcher, lambda point: bool(point["q"] <= limit)), "q")


@pytest.mark.parametrize(
    ("start", "steps", "limit", "order", "best"),
    [
        (1000, 4, 5300, [2000, 4000, 8000, 6000, 5000, 5500, 5250], 5250),
        (1000, 4, 1000, [2000, 1496, 1248, 1124, 1062, 1000], 1000),
        (1000, 4, 4000, [2000, 4000, 8000, 6000, 5000, 4500, 4250], 4000),
        (1000, 1, 5300, [2000, 4000, 8000, 6000], 4000),
        (1000, 1, 7000, [2000, 4000, 8000, 6000], 6000),
        (1000, 0, 5300, [2000, 4000, 8000], 4000),
        (1, 4, 5, [2, 4, 8, 6, 5], 5),
        (1, 4, 1, [2, 1], 1),
    ],
)
def test_the_documented_order(
    start: int, steps: int, limit: float, order: list[int], best: int
) -> None:
    searcher = FindUpperBound("q", start, valid, steps)
    assert order_of(searcher, limit) == order
    assert searcher.get_best() == {"q": best}


def test_the_start_is_run_when_all_above_it_failed() -> None:
    searcher = FindUpperBound("q", 1000, valid, 4)
    assert order_of(searcher, 900) == [2000, 1496, 1248, 1124, 1062, 1000]
    with pytest.raises(SkipjackError, match=r"no feasible value of 'q': no run from 1000 to 2000"):
        searcher.get_best()


@given(st.integers(1, 50), st.integers(0, 6), st.integers(0, 5000))
def test_the_best_holds_and_is_near_the_limit(start: int, steps: int, limit: int) -> None:
    searcher = FindUpperBound("q", start, valid, steps)
    order = order_of(searcher, limit)
    assert len(set(order)) == len(order)
    if limit < start:
        return
    best = searcher.get_best()["q"]
    octave = max(start, 2 ** math.floor(math.log2(limit / start)) * start)
    assert best <= limit < best + max(1, octave >> steps)


def test_a_predicate_that_always_holds_ends() -> None:
    searcher = FindUpperBound("q", 3, valid, 4)
    assert len(order_of(searcher, math.inf)) == MAX_DOUBLINGS
    assert searcher.get_best() == {"q": 3 * 2**MAX_DOUBLINGS}


@pytest.mark.parametrize(
    ("start", "steps", "sentence"),
    [
        (0, 4, "start of FindUpperBound of 'q' must be at least 1, not 0"),
        (1.5, 4, "start of FindUpperBound of 'q' must be a whole number, not 1.5"),
        (1, -1, "num_bisect_steps of FindUpperBound of 'q' must not be negative"),
        (1, None, "num_bisect_steps of FindUpperBound of 'q' must be a whole number, not None"),
    ],
)
def test_a_wrong_argument_gets_a_sentence_that_names_it(
    start: int, steps: int, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        FindUpperBound("q", start, valid, steps)
