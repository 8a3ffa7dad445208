"""What runs tell about limits: of one setting (a grid posterior), of all (a Gaussian process)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The posterior of the largest load that holds, from runs at some loads.
#
# The chance that a run holds falls with the load, as a logistic curve over its logarithm. Unknown
# are the load at which it crosses the required chance (the *limit*), its steepness, and the share
# of runs that fail at any load (a *lapse*), so that one unlucky run moves the result only a little.
# The posterior is a grid over all combinations of the three.

Floats = NDArray[np.float64]

_WIDTHS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Relative widths of the curve. Measured: 0.2 % for long runs on GPUs, 5 % for short ones."""
_UNLUCKY = (0.02, 0.1, 0.3, 0.6)
"""Rates of failures at any load, as shares of the failures that the limit allows."""
_UNLUCKY_PRIOR = (0.4, 0.35, 0.2, 0.05)
_LUCKY = 0.01
"""Rate of runs that hold at any load, as a share of the chance that the limit requires."""
_OUTSIDE = 0.1
"""The prior probability that the limit is below the range, and that it is above it."""
_BEYOND = log(1.5)
"""How far outside its range a limit may be; within the range, farther looks the same."""
_MOST_CELLS = 4000
_NEGLIGIBLE = 1e-9


class LoadPosterior:
    """The posterior of the limit within a range of loads; `add` updates it with a run."""

    def __init__(
        self, lower: float, upper: float, *, holds: float = 0.5, resolution: float = 0.01
    ) -> None:
        self.lower, self.upper = lower, upper
        inside = _cells(log(lower), log(upper), resolution / 3)
        below = _cells(log(lower) - _BEYOND, log(lower), 0.02)
        above = _cells(log(upper), log(upper) + _BEYOND, 0.02)
        self._first, self._last = len(below), len(below) + len(inside)
        limits = np.concatenate([below, inside, above])
        widths = np.array(_WIDTHS)
        unlucky = np.array(_UNLUCKY) * (1.0 - holds)
        lucky = _LUCKY * holds
        at_limit = (holds - lucky) / (1.0 - unlucky - lucky)
        shares = [
            np.full(len(below), _OUTSIDE / len(below)),
            np.full(len(inside), (1.0 - 2 * _OUTSIDE) / len(inside)),
            np.full(len(above), _OUTSIDE / len(above)),
        ]
        grid = np.meshgrid(
            np.arange(len(limits)), np.arange(len(widths)), np.arange(len(unlucky)), indexing="ij"
        )
        self._cell, width, lapse = (axis.ravel() for axis in grid)
        self._limits = limits
        self._limit = limits[self._cell]
        self._width = widths[width]
        self._offset = np.log(at_limit / (1.0 - at_limit))[lapse]
        self._lucky, self._range = lucky, (1.0 - unlucky - lucky)[lapse]
        prior = np.concatenate(shares)[self._cell] * np.array(_UNLUCKY_PRIOR)[lapse]
        self._mass: Floats = prior / prior.sum()

    def add(self, load: float, held: bool) -> None:
        """Update with a run at this load, which held or did not."""
        chance = self._chance(load)
        mass = self._mass * (chance if held else 1.0 - chance)
        keep = mass > _NEGLIGIBLE * mass.max()
        self._mass = mass[keep] / mass[keep].sum()
        self._cell, self._limit = self._cell[keep], self._limit[keep]
        self._width, self._offset = self._width[keep], self._offset[keep]
        self._range = self._range[keep]

    @property
    def below(self) -> float:
        """The probability that the limit is below the range."""
        return float(self._mass[self._cell < self._first].sum())

    @property
    def above(self) -> float:
        """The probability that the limit is above the range."""
        return float(self._mass[self._cell >= self._last].sum())

    def quantiles(self, shares: Sequence[float]) -> Floats:
        """Loads below which the limit is with these probabilities, clipped to the range."""
        totals = np.cumsum(np.bincount(self._cell, self._mass, len(self._limits)))
        cells = np.searchsorted(totals, np.asarray(shares) * totals[-1])
        loads: Floats = np.exp(self._limits[np.clip(cells, 0, len(self._limits) - 1)])
        return loads.clip(self.lower, self.upper)

    def chance(self, load: float) -> float:
        """The probability that a run at this load holds."""
        return float(
            (self._mass * self._chance(load)).sum()
        )  # not `@`: BLAS would wait for its threads

    def safe(self, level: float) -> float | None:
        """The largest load of the range that holds with this probability, apart from lapses.

        None if not even the lower end holds with it.
        """
        low, high = log(self.lower), log(self.upper)
        if self._steady(low) < level:
            return None
        if self._steady(high) >= level:
            return self.upper
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if self._steady(middle) >= level else (low, middle)
        return exp(low)

    def gains(self, loads: Sequence[float]) -> Floats:
        """The expected information gain of a run at each load, in nats."""
        now = _entropy(self._inner(self._mass))
        return np.array([now - self._left(load) for load in loads])

    def _left(self, load: float) -> float:
        """The expected entropy after a run."""
        chance = self._chance(load)
        held, failed = self._inner(self._mass * chance), self._inner(self._mass * (1.0 - chance))
        return sum(float(part.sum()) * _entropy(part / part.sum()) for part in (held, failed))

    def _inner(self, mass: Floats) -> Floats:
        """The probability of each limit in the range, and in total below and above it."""
        whole = np.bincount(self._cell, mass, len(self._limits))
        inside = whole[self._first : self._last]
        return np.array([whole[: self._first].sum(), *inside, whole[self._last :].sum()])

    def _chance(self, load: float) -> Floats:
        return self._lucky + self._range * self._curve(log(load))

    def _curve(self, at: float) -> Floats:
        steps = (self._limit - at) / self._width + self._offset
        curve: Floats = 1.0 / (1.0 + np.exp(-np.clip(steps, -40.0, 40.0)))
        return curve

    def _steady(self, at: float) -> float:
        return float((self._mass * self._curve(at)).sum())


def _cells(low: float, high: float, step: float) -> Floats:
    """The midpoints of equal cells."""
    count = min(max(ceil((high - low) / step), 1), _MOST_CELLS)
    width = (high - low) / count
    return np.array(low + width * (np.arange(count) + 0.5), dtype=np.float64)


def _entropy(masses: Floats) -> float:
    there = masses[masses > 0.0]
    return float(-(there * np.log(there)).sum())


# A model of the limits of all settings of a grid, from runs of some.
#
# The limit of a setting is the largest load that it holds. Settings with equal or neighbouring
# values have similar limits: their logarithms are a Gaussian process over the grid, with a term for
# each parameter and one for all together, because values interact. Runs show only whether a load
# held, and may be lucky or unlucky. The posterior is approximated by expectation propagation: the
# runs of each setting are replaced by a Gaussian that has the same effect on mean and variance.


_SETTING_WIDTHS = (0.01, 0.03, 0.06)
"""Relative widths of the curve by which the chance to hold falls; each is possible."""
_ALONE = 0.5
"""Standard deviation of the relative effect of each single parameter on limits."""
_TOGETHER = 0.4
"""The same for their combination."""
_OWN = 0.05
"""The same for a setting on its own."""
_REACH = 0.4
"""The share of a parameter's values over which limits are correlated."""
_UNLIKE = 0.4
"""Correlation of settings that differ in a string or a boolean."""
_LAPSE = 0.03
"""Rate of runs that are lucky or unlucky at any load."""
_MOST_STEPS = 40
_DAMPING = 0.7
_LEAST, _MOST = 1e-6, 1e6
"""Limits of the precision of a site."""
_FINEST, _COARSEST = 1e-6, 1e-3
"""The least variance, and the least precision, of a distribution."""
_STEP = 0.005
_SETTING_MARGIN = 0.7
"""How far outside the range of loads limits may be, as a logarithm."""


@dataclass(frozen=True)
class Belief:
    """The distribution of the limit's logarithm, a row for each setting."""

    limits: Floats
    masses: Floats

    @cached_property
    def mean(self) -> Floats:
        """The mean of each setting."""
        return self.masses @ self.limits

    @cached_property
    def deviation(self) -> Floats:
        """The standard deviation of each setting."""
        apart = self.limits - self.mean[:, None]
        deviation: Floats = np.sqrt((self.masses * apart**2).sum(axis=1))
        return deviation

    def chance_above(self, level: float) -> Floats:
        """The probability that each limit is above a level."""
        chance: Floats = self.masses[:, self.limits > level].sum(axis=1)
        return chance

    def gain_above(self, level: float) -> Floats:
        """The expected excess of each limit over a level; below it is 0."""
        return self.masses @ np.maximum(self.limits - level, 0.0)


class SettingModel:
    """The model of all settings; `add` updates it with a run."""

    def __init__(self, settings: Sequence[Mapping[str, Any]], low: float, high: float) -> None:
        """Create a model with limits expected between exp(`low`) and exp(`high`)."""
        self._middle = (low + high) / 2
        alike = _likeness(settings)
        parts = sum((_ALONE**2 * part for part in alike), np.zeros((len(settings),) * 2))
        together = _TOGETHER**2 * np.prod(alike, axis=0) if alike else 0.0
        common = ((high - low) / 3) ** 2
        self._prior: Floats = common + parts + together + _OWN**2 * np.eye(len(settings))
        self.centrality: Floats = self._prior.sum(axis=1)
        """The sum of each setting's covariances with all others."""
        half = (high - low) / 2 + _SETTING_MARGIN
        self._limits: Floats = np.linspace(-half, half, int(2 * half / _STEP) + 2)
        self._likelihoods: dict[int, Floats] = {}

    def add(self, setting: int, log_load: float, held: bool) -> None:
        """Update with a run of a setting at a load, which held or did not."""
        steps = (self._limits + self._middle - log_load) / np.array(_SETTING_WIDTHS)[:, None]
        chance = (1.0 / (1.0 + np.exp(-np.clip(steps, -40.0, 40.0)))).mean(axis=0)
        likely = _LAPSE + (1.0 - 2.0 * _LAPSE) * (chance if held else 1.0 - chance)
        before = self._likelihoods.get(setting, np.zeros(len(likely)))
        self._likelihoods[setting] = before + np.log(likely)

    def believe(self) -> Belief:
        """The posterior of all runs so far."""
        mean, variance = np.zeros(len(self._prior)), np.diag(self._prior)
        if not self._likelihoods:
            return self._belief(mean, variance)
        there, likelihoods = list(self._likelihoods), np.array(list(self._likelihoods.values()))
        inner = self._prior[np.ix_(there, there)]
        precision, pull = self._sites(inner, likelihoods)
        root = np.sqrt(precision)
        factor = _factor(inner, root)
        across = np.linalg.solve(factor, root[:, None] * self._prior[there])
        mean = across.T @ np.linalg.solve(factor, pull / root)
        variance = np.maximum(variance - (across**2).sum(axis=0), _FINEST)
        # Settings with runs use the likelihood itself instead of its Gaussian approximation.
        others = np.maximum(1.0 / variance[there] - precision, _COARSEST)
        beside = (mean[there] / variance[there] - pull) / others
        belief = self._belief(mean, variance)
        belief.masses[there] = self._weights(beside, others, likelihoods)
        return belief

    def _belief(self, mean: Floats, variance: Floats) -> Belief:
        masses = self._weights(mean, 1.0 / variance, np.zeros(1))
        return Belief(self._limits + self._middle, masses)

    def _sites(self, prior: Floats, likelihoods: Floats) -> tuple[Floats, Floats]:
        """The sites: for each setting with runs, precision and precision times mean."""
        precision, pull = np.full(len(prior), _LEAST), np.zeros(len(prior))
        for _ in range(_MOST_STEPS):
            root = np.sqrt(precision)
            half = np.linalg.solve(_factor(prior, root), root[:, None] * prior)
            covariance = prior - half.T @ half
            variance = np.diag(covariance)
            others = np.maximum(1.0 / variance - precision, _COARSEST)
            mean: Floats = (covariance @ pull / variance - pull) / others
            new_mean, new_variance = self._tilted(mean, others, likelihoods)
            wanted = np.clip(1.0 / new_variance - others, _LEAST, _MOST)
            change = wanted - precision
            precision = precision + _DAMPING * change
            pull = pull + _DAMPING * (new_mean * (others + wanted) - mean * others - pull)
            if np.abs(change).max() < 1e-3 * wanted.max():
                break
        return precision, pull

    def _tilted(self, mean: Floats, others: Floats, likelihoods: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each limit under its cavity distribution and likelihood."""
        weights = self._weights(mean, others, likelihoods)
        new_mean = weights @ self._limits
        new_variance = (weights * (self._limits - new_mean[:, None]) ** 2).sum(axis=1)
        return new_mean, np.maximum(new_variance, _FINEST)

    def _weights(self, mean: Floats, precision: Floats, likelihoods: Floats) -> Floats:
        apart = self._limits - mean[:, None]
        logs = likelihoods - 0.5 * precision[:, None] * apart**2
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def _factor(prior: Floats, root: Floats) -> Floats:
    inner = np.eye(len(prior)) + root[:, None] * prior * root
    return np.linalg.cholesky(inner).astype(np.float64)


def _likeness(settings: Sequence[Mapping[str, Any]]) -> list[Floats]:
    """The correlation of all pairs of settings by each parameter that varies."""
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    found = []
    for name in names:
        values = [setting.get(name) for setting in settings]
        if any(value != values[0] for value in values):
            found.append(_likeness_by(values))
    return found


def _likeness_by(values: Sequence[Any]) -> Floats:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values) or any(isinstance(value, bool) for value in values):
        same = np.array([[one == other for other in values] for one in values])
        return np.where(same, 1.0, _UNLIKE)
    _, ranks = np.unique(np.array(numbers, dtype=np.float64), return_inverse=True)
    places = ranks / max(int(ranks.max()), 1)
    apart = places[:, None] - places[None, :]
    likeness: Floats = np.exp(-0.5 * (apart / _REACH) ** 2)
    return likeness
