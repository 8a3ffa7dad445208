"""What is lost where only the first few configs of an order are measured, on held-out problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, inf

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.ranker import ProblemRows, held_out, part_scores
from skipjack.models import MISSING, Ranker

KEPT = (1, 2, 4, 8, 16, 32)
"""How many configs are kept."""
_ESTIMATE = "estimate"
"""The feature that is the estimate of a solver's own, by which searches start."""


class Order(StrEnum):
    """By what configs are ordered before any is measured."""

    RANKER = "ranker"
    """By a ranker that was fitted to other shapes."""
    ESTIMATE = "solver's estimate"
    RANDOM = "random"
    """Drawn; an exact expectation."""


@dataclass(frozen=True, slots=True)
class KeptQuality:
    """The best of the configs kept, over all that were measured of the problem: 1 loses nothing."""

    order: Order
    kept: int
    problems: int
    mean: float
    p10: float
    """The tenth percentile over problems."""


def kept_qualities(
    parts: Sequence[ProblemRows],
    count: int = 5,
    progress: Callable[[str], None] = lambda _: None,
) -> list[KeptQuality]:
    """The quality of each order by how many configs are kept, by folds that are grouped by shape.

    Problems with fewer configs than are kept lose nothing; an order that is not known for all
    solvers of a problem is left out for it.
    """
    found: defaultdict[tuple[Order, int], list[float]] = defaultdict(list)
    for ranker, of_problem in held_out(parts, count, progress):
        for key, quality in _qualities(of_problem, ranker).items():
            found[key].append(quality)
    return [
        KeptQuality(
            *(by, kept, len(values)),
            *(round(float(one), 4) for one in (np.mean(values), np.quantile(values, 0.1))),
        )
        for by in Order
        for kept in KEPT
        if (values := found[by, kept])
    ]


def _qualities(parts: Sequence[ProblemRows], ranker: Ranker) -> dict[tuple[Order, int], float]:
    times = np.array([one.time_ns for part in parts for one in part.measured])
    best = times.min(initial=inf)
    if best == inf:
        return {}
    scores = {Order.RANKER: np.concatenate([part_scores(part, ranker) for part in parts])}
    if all(_ESTIMATE in part.names for part in parts):
        estimates = [part.rows[:, part.names.index(_ESTIMATE)] for part in parts]
        estimate = np.concatenate(estimates).astype(np.float64)
        if (estimate != MISSING).all():
            scores[Order.ESTIMATE] = estimate
    found: dict[tuple[Order, int], float] = {}
    for by, each in scores.items():
        ranked = best / times[np.argsort(each, kind="stable")]
        found |= {(by, kept): float(ranked[:kept].max()) for kept in KEPT}
    drawn = np.sort(best / times)[::-1]
    found |= {(Order.RANDOM, kept): _expected_best(drawn, kept) for kept in KEPT}
    return found


def _expected_best(falling: NDArray[np.float64], kept: int) -> float:
    """The expected best of so many drawn without repetition."""
    count = len(falling)
    if kept >= count:
        return float(falling[0])
    ways = comb(count, kept)
    chances = [comb(count - 1 - at, kept - 1) / ways for at in range(count - kept + 1)]
    return float(np.dot(chances, falling[: len(chances)]))
