"""What is expected of the configs of a pool, given the trials so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config
from skipjack.search.model.observed import Compression, Observed
from skipjack.search.model.pool import Pool
from skipjack.search.model.process import GaussianProcess
from skipjack.search.model.settings import ModelSettings

Doubles = NDArray[np.float64]

_LEAST_CHANCE = 0.01
"""The least probability of success that is assumed."""
_FEW = 4
"""With fewer trials, their spread says little about what is left to learn."""


@dataclass(frozen=True, slots=True)
class _Targets:
    """What the process is fitted to: results less what estimates say of them."""

    left: dict[str, float]
    """By config; failures are somewhat worse than the median."""
    explained: dict[str, float]
    """What estimates say of each config that was requested or told."""
    prior: Doubles | float
    """The same of each config of the pool."""
    usual_spread: float
    best: float

    @property
    def scale(self) -> float:
        """The spread of what is left."""
        spread = float(np.std([*self.left.values()]))
        return (spread if len(self.left) >= _FEW else max(spread, self.usual_spread)) or 1.0

    @property
    def middle(self) -> float:
        """The mean of what is left."""
        return float(np.mean([*self.left.values()]))


class TrialModel:
    """A Gaussian process of the logarithms of results, as far as estimates do not explain them.

    Failures count as a bad result, and what is gained is weighed with the chance of success,
    which the same process predicts. Configs that were requested are believed to have the result
    that was expected of them, so that requests that are pending at a time differ.

    Args:
        pool: the configs to predict; call `renewed` when they have changed.
        settings: the numbers of the model.
    """

    def __init__(self, pool: Pool, settings: ModelSettings) -> None:
        self._pool, self._settings = pool, settings
        self._process = GaussianProcess(pool.groups, settings)
        self._rows: dict[str, Doubles] = {}
        self._estimates: dict[str, float] = {}
        self._believed: dict[str, float] = {}
        self._order: dict[str, None] = {}
        """The configs that the process is conditioned on, in its order."""
        self._left_out: set[str] = set()
        """Of very many trials, those that the process does not use."""
        self._fitted_at = -1

    @property
    def rows(self) -> list[Doubles]:
        """The rows of the configs that were requested or told, in this order."""
        return [*self._rows.values()]

    def add(self, key: str, config: Config) -> None:
        """A config was requested or told."""
        if key not in self._rows:
            self._rows[key], self._estimates[key] = self._pool.describe(config)
        self._pool.close(key)

    def believe(self, key: str, result: float) -> None:
        """Assume a result until it is told."""
        self._believed[key] = result

    def renewed(self) -> None:
        """The pool has other configs."""
        self._order = {}

    def expected_gains(self, observed: Observed) -> tuple[Doubles, Doubles]:
        """The expected improvement over the best result by each config, and its expected result.

        At least one config must have succeeded. Of configs that may not be requested anymore the
        improvement is minus infinity.
        """
        targets = self._targets(observed)
        told, scale, middle = len(observed), targets.scale, targets.middle
        due = self._fitted_at < 0 or told >= self._fitted_at + self._settings.interval(told)
        if due or not self._order:
            self._condition(targets, observed, fit=due)
        beliefs = {key: self._believed[key] for key in self._believed if key not in targets.left}
        for key, row in self._rows.items():
            known = key in targets.left or key in beliefs
            if known and key not in self._order and key not in self._left_out:
                self._process.append(row)
                self._order[key] = None
        left = {key: value - targets.explained[key] for key, value in beliefs.items()}
        left.update(targets.left)
        expected, deviation = self._process.predict(
            np.array([(left[key] - middle) / scale for key in self._order])
        )
        expected = expected * scale + middle + targets.prior
        gains = expected_improvement(targets.best - expected, deviation * scale)
        if observed.failed:
            gains *= self._chances(observed)
        gains[~self._pool.open] = -np.inf
        return gains, expected

    def _targets(self, observed: Observed) -> _Targets:
        logs = observed.logarithms()
        values = np.array([*logs.values()])
        share, pool = self._settings.plain_share, self._pool
        prior: Doubles | float = 0.0
        explained, usual_spread = dict.fromkeys(self._estimates, 0.0), 0.0
        if pool.has_estimates:
            # Results and estimates are compressed alike, from their best on.
            known = Compression.of(pool.estimates, share)
            prior = known(pool.estimates)
            estimates = known(np.array([*self._estimates.values()]))
            explained = dict(zip(self._estimates, estimates.tolist(), strict=True))
            usual_spread = float(prior.std()) / 2
            compression = Compression(float(values.min()) + known.span, known.span)
        else:
            compression = Compression.of(values, share)
        results = dict(zip(logs, compression(values).tolist(), strict=True))
        best = min(results.values())
        failed = float(np.quantile([*results.values()], self._settings.failed_rank))
        results.update((key, failed) for key in sorted(observed.failed))
        left = {key: value - explained[key] for key, value in results.items()}
        return _Targets(left, explained, prior, usual_spread, best)

    def _condition(self, targets: _Targets, observed: Observed, *, fit: bool) -> None:
        """Take the trials so far; of very many, the best and the newest."""
        keys, most = [key for key in self._rows if key in targets.left], self._settings.most_used
        if len(keys) > most:
            used = set(observed.best(most // 2))
            others = [key for key in keys if key not in used]
            used.update(others[len(used) - most :])
            self._left_out = set(keys) - used
            keys = [key for key in keys if key in used]
        rows = np.array([self._rows[key] for key in keys])
        values = np.array([targets.left[key] for key in keys])
        if fit:
            self._process.fit(rows, (values - targets.middle) / targets.scale)
            self._fitted_at = len(observed)
        self._process.condition(rows, self._pool.rows)
        self._order = dict.fromkeys(keys)

    def _chances(self, observed: Observed) -> Doubles:
        """The probability of each config to succeed, by the trials near it."""
        failed = np.array([float(key in observed.failed) for key in self._order])
        share = float(failed.mean())
        failing = share + self._process.expect(failed - share)
        return np.clip(1.0 - failing, _LEAST_CHANCE, 1.0) ** self._settings.chance_power


def expected_improvement(gain: Doubles, deviation: Doubles) -> Doubles:
    """The expected gain over the best value, where the mean gain and its deviation are known."""
    ratio = gain / deviation
    density = np.exp(-0.5 * ratio * ratio) / math.sqrt(2 * math.pi)
    return np.asarray(gain * _normal_share(ratio, density) + deviation * density)


def _normal_share(ratio: Doubles, density: Doubles) -> Doubles:
    """The normal distribution function: Abramowitz and Stegun, 26.2.17, exact to 1e-7."""
    at = 1.0 / (1.0 + 0.2316419 * np.abs(ratio))
    tail = np.zeros_like(at)
    for term in (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530):
        tail = (tail + term) * at
    tail *= density
    return np.asarray(np.where(ratio > 0, 1.0 - tail, tail))
