"""How good a search on a recorded space was, compared with the optimum and with random search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skipjack.learn.replay.space import RecordedSpace

Curve = np.ndarray[tuple[int], np.dtype[np.float64]]

WITHIN = 1.05
"""A search has reached the optimum when its best is at most 5 % slower."""


class RandomBaseline:
    """What random search without repetition is expected to find, computed exactly.

    After t of n configs the best is the one of rank r (from 0) with the probability
    C(n - r - 1, t - 1) / C(n, t). Failed configs count as evaluations. Before the first success a
    search has nothing; there, as in all curves, the slowest successful config stands in.
    """

    def __init__(self, space: RecordedSpace, budget: int) -> None:
        values = np.sort(space.costs)
        finite = values[np.isfinite(values)]
        self.size = len(values)
        self.budget = min(budget, self.size)
        self.optimum, self.worst = float(finite[0]), float(finite[-1])
        self._finite = finite
        self._logs = np.log(np.minimum(values, self.worst) / self.optimum)
        self.log_ratios: Curve = np.array([self._mean(t) for t in range(1, self.budget + 1)])
        """The expected log(best so far / optimum) after 1, 2, ... evaluations."""

    def chance_within(self, ratio: float, evaluations: int) -> float:
        """The probability to have reached the optimum times a ratio."""
        good = int(np.searchsorted(self._finite, self.optimum * ratio, side="right"))
        missed = 1.0
        for drawn in range(min(evaluations, self.size)):
            missed *= max(0, self.size - good - drawn) / (self.size - drawn)
        return 1.0 - missed

    def expected_evaluations(self, ratio: float = WITHIN) -> float:
        """The expected number of evaluations until the optimum times a ratio is reached."""
        good = int(np.searchsorted(self._finite, self.optimum * ratio, side="right"))
        return (self.size + 1) / (good + 1)

    def evaluations_for(self, log_ratio: float) -> int:
        """How many evaluations random search needs until its expectation is that good."""
        low, high = 1, self.size
        while low < high:
            middle = (low + high) // 2
            if self._mean(middle) <= log_ratio + 1e-12:
                high = middle
            else:
                low = middle + 1
        return low

    def _mean(self, drawn: int) -> float:
        """The mean of the smallest of so many log ratios, drawn without replacement."""
        n = self.size
        rank = np.arange(n - drawn)  # the best of t configs has at most the rank n - t
        # t/n for rank 0, then times (n - r - t) / (n - r - 1) from each rank to the next.
        steps = np.concatenate([[1.0], (n - rank - drawn) / (n - rank - 1.0)])
        return float(np.cumprod(steps) @ self._logs[: len(steps)] * (drawn / n))


def log_ratios(curve: Sequence[float], baseline: RandomBaseline) -> Curve:
    """log(best so far / optimum) of a run; before its first success, as if it had the slowest."""
    values = np.minimum(np.array(curve, dtype=float), baseline.worst)
    found: Curve = np.log(values / baseline.optimum)
    return found


def area(ratios: Curve) -> float:
    """The mean over the evaluations: the area under the best-so-far curve, 0 if always optimal."""
    return float(ratios.mean())


def performance_score(ratios: Curve, baseline: RandomBaseline) -> float:
    """1 is the optimum from the first evaluation on, 0 is random search, negative is worse.

    The share of the distance between random search's expected curve and the optimum that the run's
    curve has saved, as in Willemsen et al., A Methodology for Comparing Optimization Algorithms for
    Auto-Tuning (2024), on logarithms of ratios and over all evaluations.
    """
    expected = area(baseline.log_ratios[: len(ratios)])
    return 1.0 - area(ratios) / expected if expected > 0 else 0.0


def evaluations_until(curve: Sequence[float], optimum: float, ratio: float = WITHIN) -> float:
    """The first evaluation with the optimum times a ratio; infinite if it was never reached."""
    reached = (at for at, value in enumerate(curve, 1) if value <= optimum * ratio)
    return next((float(at) for at in reached), math.inf)
