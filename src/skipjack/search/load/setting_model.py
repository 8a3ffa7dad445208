"""What runs of some settings say about the limits of all settings of a grid.

The limit of a setting is the largest load that it holds. Limits of settings that have values in
common, or neighbouring ones, are alike: their logarithms are a Gaussian process over the grid, with
a part for each parameter and a part for all together (values interact). Runs say only whether a
load held, and may be lucky or unlucky. The posterior is approximated by expectation propagation:
the runs of each setting are replaced by a Gaussian that moves mean and variance as they would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WIDTHS = (0.01, 0.03, 0.06)
"""How steeply the chance to hold falls, relative to the load; each may be."""
_ALONE = 0.5
"""How much each parameter alone moves limits, relative (one standard deviation)."""
_TOGETHER = 0.4
"""How much their combination does beyond that."""
_OWN = 0.05
"""How much a setting differs from what its neighbours suggest."""
_REACH = 0.4
"""Over which part of a parameter's values limits are alike."""
_UNLIKE = 0.4
"""How alike settings are that differ in a word or a switch."""
_LAPSE = 0.03
"""How often a run is unlucky or lucky whatever its load."""
_MOST_STEPS = 40
_DAMPING = 0.7
_LEAST, _MOST = 1e-6, 1e6
"""Precisions of what the runs of a setting say."""
_FINEST, _COARSEST = 1e-6, 1e-3
"""The least variance, and the least precision, of anything believed."""
_STEP = 0.005
_BEYOND = 0.7
"""How far beyond the range of loads limits may lie, in logarithms."""


@dataclass(frozen=True)
class Belief:
    """Of every setting the distribution of its limit's logarithm: a row each."""

    limits: Floats
    masses: Floats

    @cached_property
    def mean(self) -> Floats:
        """Of each setting."""
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
        """How far each limit is expected to be above a level, counting those below as 0."""
        return self.masses @ np.maximum(self.limits - level, 0.0)


class SettingModel:
    """Beliefs about all settings, from runs of some."""

    def __init__(self, settings: Sequence[Mapping[str, Any]], low: float, high: float) -> None:
        """Limits are expected between exp(`low`) and exp(`high`)."""
        self._middle = (low + high) / 2
        alike = _likeness(settings)
        parts = sum((_ALONE**2 * part for part in alike), np.zeros((len(settings),) * 2))
        together = _TOGETHER**2 * np.prod(alike, axis=0) if alike else 0.0
        common = ((high - low) / 3) ** 2
        self._prior: Floats = common + parts + together + _OWN**2 * np.eye(len(settings))
        self.centrality: Floats = self._prior.sum(axis=1)
        """How much each setting has in common with all others."""
        half = (high - low) / 2 + _BEYOND
        self._limits: Floats = np.linspace(-half, half, int(2 * half / _STEP) + 2)
        self._likelihoods: dict[int, Floats] = {}

    def add(self, setting: int, log_load: float, held: bool) -> None:
        """A run of a setting at a load held, or did not."""
        steps = (self._limits + self._middle - log_load) / np.array(_WIDTHS)[:, None]
        chance = (1.0 / (1.0 + np.exp(-np.clip(steps, -40.0, 40.0)))).mean(axis=0)
        likely = _LAPSE + (1.0 - 2.0 * _LAPSE) * (chance if held else 1.0 - chance)
        before = self._likelihoods.get(setting, np.zeros(len(likely)))
        self._likelihoods[setting] = before + np.log(likely)

    def believe(self) -> Belief:
        """All that the runs say by now."""
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
        # Where there are runs, they themselves take the place of the Gaussian for them.
        others = np.maximum(1.0 / variance[there] - precision, _COARSEST)
        beside = (mean[there] / variance[there] - pull) / others
        belief = self._belief(mean, variance)
        belief.masses[there] = self._weights(beside, others, likelihoods)
        return belief

    def _belief(self, mean: Floats, variance: Floats) -> Belief:
        masses = self._weights(mean, 1.0 / variance, np.zeros(1))
        return Belief(self._limits + self._middle, masses)

    def _sites(self, prior: Floats, likelihoods: Floats) -> tuple[Floats, Floats]:
        """For every setting the Gaussian that stands for its runs: precision, and times mean."""
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
        """Mean and variance of each limit, if all that others say is this Gaussian."""
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
    """For every parameter that varies, how alike it makes each two settings."""
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
