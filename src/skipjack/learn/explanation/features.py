"""Which features a ranker uses, and how its estimate depends on the most important ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.ranker import ProblemRows
from skipjack.models import MISSING, Ranker

_ROWS = 600
"""Candidates over which an effect is averaged; drawn by a seed."""
_VALUES = 16
"""The most values of a feature at which its effect is computed."""

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FeatureShare:
    """A feature, and the share of the loss that splits by it removed in fitting."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """The partial dependence of the estimate on one feature, all others as they are."""

    name: str
    values: tuple[float, ...]
    """Ascending values of the feature as models see them, sizes as logarithms to base 2."""
    ratios: tuple[float, ...]
    """At each value: the mean estimate of the time, over the least of these means."""
    low: tuple[float, ...]
    """At each value: the first quartile over candidates of the estimate over the candidate's own
    mean, times the mean ratio; far from `ratios` where the effect depends on other features."""
    high: tuple[float, ...]
    """The third quartile."""


def feature_shares(ranker: Ranker) -> list[FeatureShare]:
    """The features that the ranker's times depend on, the most important first."""
    shares = zip(ranker.names, ranker.times.importance.tolist(), strict=True)
    found = [FeatureShare(name, share) for name, share in shares if share > 0.0]
    return sorted(found, key=lambda one: -one.share)


def feature_effects(
    ranker: Ranker, parts: Sequence[ProblemRows], names: Sequence[str], seed: int = 0
) -> list[FeatureEffect]:
    """The effects of these features, over candidates drawn from those that were measured.

    Features that have a single value in the data are left out.
    """
    rows = np.vstack([ranker.arranged(one.rows, one.names, _solver(one)) for one in parts])
    rng = np.random.default_rng(seed)
    found = []
    for name in names:
        at = ranker.names.index(name)
        # A space without this setting has no value of it.
        known = rows[rows[:, at] != MISSING]
        values = _grid(known[:, at])
        if len(values) < 2:
            continue
        drawn = known[rng.permutation(len(known))[:_ROWS]]
        found.append(_effect(ranker, drawn, at, values))
    return found


def _solver(part: ProblemRows) -> str:
    return part.measured[0].solver


def _grid(column: NDArray[np.float32]) -> NDArray[np.float32]:
    values = np.unique(column)
    if len(values) <= _VALUES:
        return values
    return np.unique(np.quantile(column, np.linspace(0.02, 0.98, _VALUES)).astype(np.float32))


def _effect(ranker: Ranker, rows: Rows, at: int, values: NDArray[np.float32]) -> FeatureEffect:
    estimates = np.empty((len(values), len(rows)))
    for place, value in enumerate(values.tolist()):
        changed = rows.copy()
        changed[:, at] = value
        estimates[place] = ranker.times.sums(changed)
    means = estimates.mean(axis=1)
    base = means.min()
    own = estimates - estimates.mean(axis=0)
    centre = means.mean() - base
    low, high = np.quantile(own, 0.25, axis=1) + centre, np.quantile(own, 0.75, axis=1) + centre
    return FeatureEffect(
        ranker.names[at],
        tuple(values.tolist()),
        tuple(np.exp(means - base).tolist()),
        tuple(np.exp(low).tolist()),
        tuple(np.exp(high).tolist()),
    )
