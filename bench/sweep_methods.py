"""Ways to find the largest load that holds: ours, a bisection, and LoadGen's own search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.search.load import Bisect, Boundary, valid
from skipjack.testing.scripts import play

PARAM = "target_qps"
Holds = Callable[[float], bool]
"""Runs a test at a load and says whether it held."""

METHODS = ("boundary", "bisect", "find_peak")


@dataclass(frozen=True)
class Found:
    """What a method says the limit is; None if it refuses to say."""

    load: float | None
    tests: int
    low: float | None = None
    high: float | None = None


def by_boundary(holds: Holds, lower: int, upper: int, budget: int, **more: Any) -> Found:
    """Weighs all tests together."""
    searcher = Boundary(PARAM, lower, upper, runs=budget, **more)
    tests = len(play(searcher, lambda point: holds(point[PARAM])))
    answer = searcher.answer
    return Found(answer.value, tests, answer.low, answer.high)


def by_bisect(holds: Holds, lower: int, upper: int) -> Found:
    """Believes every test. Its steps are as small as they can be: single queries per second."""
    searcher = Bisect(PARAM, lower, upper + 1, 1, valid)
    tests = len(play(searcher, lambda point: holds(point[PARAM])))
    try:
        return Found(searcher.get_best()[PARAM], tests)
    except SkipjackError:
        return Found(None, tests)


def by_doubling(holds: Holds, start: float, decimals: int = 1) -> Found:
    """What FindPeakPerformance does, for virtual time: the start must hold, double, bisect."""
    tests = 1
    if not holds(start):
        return Found(None, tests)
    low, high = start, 2 * start
    while True:
        tests += 1
        if not holds(high):
            break
        low, high = high, 2 * high
    while int(low * 10**decimals) != int(high * 10**decimals):
        middle = (low + high) / 2
        tests += 1
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Found(low, tests)
