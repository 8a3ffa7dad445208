"""Searches beside each other: gains over the untuned nest, by search and by problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

import numpy as np

from skipjack.learn.tree import SearchRun

_RESAMPLES = 2000
_LEAST_FOR_INTERVAL = 3


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """What one search gained over all its problems and seeds."""

    search: str
    problems: int
    seeds: int
    mean: float
    """Geometric mean of the gains: how many times faster than the start."""
    low: float | None
    """Of the 95 % interval of the mean over problems; None for fewer than 3."""
    high: float | None
    middle: float
    least: float
    most: float
    measured: float
    """Schedules measured, on average."""
    elapsed_s: float
    """On average."""


def summarize_searches(runs: Sequence[SearchRun]) -> list[SearchSummary]:
    """In the order of first appearance; runs without a result are left out."""
    names = dict.fromkeys(run.search for run in runs)
    found = ((name, [run for run in runs if run.search == name and run.gain]) for name in names)
    return [_summary(name, some) for name, some in found if some]


def gains_of(runs: Sequence[SearchRun]) -> list[float]:
    """Those that there are."""
    return [run.gain for run in runs if run.gain]


def _summary(name: str, runs: Sequence[SearchRun]) -> SearchSummary:
    gains = gains_of(runs)
    by_problem: dict[str, list[float]] = {}
    for run in runs:
        by_problem.setdefault(run.problem, []).append(run.gain or 1.0)
    low, high = _interval([geometric_mean(some) for some in by_problem.values()])
    return SearchSummary(
        name,
        len(by_problem),
        len({run.seed for run in runs}),
        geometric_mean(gains),
        low,
        high,
        median(gains),
        min(gains),
        max(gains),
        sum(run.measured for run in runs) / len(runs),
        sum(run.elapsed_s for run in runs) / len(runs),
    )


def _interval(gains: Sequence[float]) -> tuple[float | None, float | None]:
    """Bootstrap over problems, for they differ more than seeds do."""
    if len(gains) < _LEAST_FOR_INTERVAL:
        return None, None
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.log(gains), size=(_RESAMPLES, len(gains))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return float(low), float(high)
