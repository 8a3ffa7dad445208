"""QPSBisect: each point follows from the whole history."""

import math

import pytest

from skipjack.core import Status
from skipjack.errors import UsageError
from skipjack.search import Run, Stats
from skipjack.search.load import QPSBisect

NAME = "server_target_qps"


def sequence(lower: int, upper: int, step: int, limit: float) -> list[int]:
    past: list[Run] = []
    while (point := QPSBisect(lower, upper, step, past).get_next_cross()) is not None:
        valid = point[NAME] <= limit
        past.append(Run(point, Stats({"result_validity": "VALID" if valid else "INVALID"})))
    return [run.cross[NAME] for run in past]


@pytest.mark.parametrize(
    ("limit", "order"),
    [
        (0, [1500, 1000, 700, 600, 500]),
        (1700, [1500, 2000, 1700, 1800]),
        (math.inf, [1500, 2000, 2200, 2300, 2400]),
    ],
)
def test_the_documented_order(limit: float, order: list[int]) -> None:
    assert sequence(500, 2500, 100, limit) == order


def test_plain_pairs_of_dicts_are_a_history() -> None:
    past = [({NAME: 1500, "batch": 8}, {"result_validity": "VALID"})]
    assert QPSBisect(500, 2500, 100, past).get_next_cross() == {NAME: 2000}


def test_a_run_that_failed_is_bad() -> None:
    past = [Run({NAME: 1500}, Stats({}, Status.CRASH))]
    assert QPSBisect(500, 2500, 100, past).get_next_cross() == {NAME: 1000}


@pytest.mark.parametrize("point", [{}, {NAME: 0}, {NAME: None}])
def test_a_run_without_a_value_is_passed_over(point: dict[str, object]) -> None:
    past = [(point, {"result_validity": "VALID"})]
    assert QPSBisect(500, 2500, 100, past).get_next_cross() == {NAME: 1500}


def test_no_history_is_a_history_without_runs() -> None:
    bisect = QPSBisect(lb=500, ub=2500, ss=100, past_runs=None)
    point = bisect.get_next_cross()
    assert point == {NAME: 1500}
    point["batch"] = 8
    assert bisect.get_next_cross() == {NAME: 1500}


def test_zero_can_be_a_value() -> None:
    assert sequence(0, 300, 100, -1) == [100, 0]


def test_a_value_of_another_search_is_refused() -> None:
    with pytest.raises(
        UsageError, match="server_target_qps=1550, which is not in the range 500 to 2500"
    ):
        QPSBisect(500, 2500, 100, [({NAME: 1550}, {"result_validity": "VALID"})])
