"""The searcher ``model``."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Trial
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.model.encoding import Rows
from skipjack.search.model.observed import Compression, Observed
from skipjack.search.model.pool import Pool
from skipjack.search.model.process import Doubles, GaussianProcess
from skipjack.search.model.settings import ModelSettings
from skipjack.search.searcher import SearchContext, Share

_LEADERS = 8
"""The best configs, from whose neighbours and children a large space's pool is drawn."""


class ModelSearch(GeneratorSearcher):
    """Requests the configs from which a model expects most, given all trials so far.

    It starts with the seeds, the order of the space, and configs that are far from each other. Then
    a Gaussian process predicts every config of the space, or what is drawn of a large one, and that
    of the largest expected improvement comes next: Jones, Schonlau and Welch, Efficient Global
    Optimization of Expensive Black-Box Functions (1998). Failures count as slow, and where they
    prevail nothing is expected.

    Args:
        context: what to search.
        explore: the share of configs that are requested at random.
        settings: the numbers of the model.

    Example::

        tune("matmul:512x512x512", searcher="model")
    """

    uses_prior = True

    def __init__(
        self,
        context: SearchContext,
        *,
        explore: Share = 0.0,
        settings: ModelSettings | None = None,
    ) -> None:
        super().__init__(self._choose_all, context)
        self._explore = explore
        self._settings = settings or ModelSettings()
        self._observed = Observed()
        self._configs: dict[str, Config] = {}
        """The configs with a result or pending, by their keys."""
        self._pool = Pool(context, self.rng, self._settings)
        self._process = GaussianProcess(self._pool.groups, self._settings)
        self._rows: dict[str, Rows] = {}
        self._estimates: dict[str, float] = {}
        self._order: dict[str, None] = {}
        """The configs that the process is conditioned on, in its order."""
        self._believed: dict[str, float] = {}
        """What the model expected of configs that were requested."""
        self._fitted_at, self._renew_at = -1, 0
        self._gains: Doubles | None = None
        """What the model expected of the pool when it last chose."""

    def _choose_all(self, context: SearchContext) -> Batches:
        news: Iterable[Trial] = context.known
        self._fill()  # estimates of single configs are on the scale of the pool
        while True:
            for trial in news:
                self._note(trial)
            config = self._next_config()
            if config is None and len(self.seen) > len(self.trials):
                news = yield Ask(wait=False)  # wait for results
            elif config is None:
                return
            else:
                news = yield Ask([config], wait=False)

    def _note(self, trial: Trial) -> None:
        key = self.space.key(trial.config)
        self._observed.add(key, trial)
        self._add(key, trial.config)

    def _add(self, key: str, config: Config) -> None:
        if key not in self._configs:
            self._configs[key] = config
            self._rows[key], self._estimates[key] = self._pool.describe(config)
        self._pool.close(key)

    def _next_config(self) -> Config | None:
        self._fill()
        if not self._pool.open.any():
            return self.fresh.draw()
        waiting = len(self.seen) > len(self.trials)
        if self._pool.has_estimates:
            if not self._observed.successes:
                return self._requested(self._pool.configs[self._first_estimated()])
        elif len(self.seen) <= self._settings.first_samples or self._observed.successes < 2:
            if (
                waiting
                and len(self.seen) > self._settings.first_samples
                and self._observed.successes
            ):
                return None
            return self._requested(self._pool.configs[self._spread()])
        if self.rng.random() < self._explore:
            drawn = self.fresh.draw()
            return None if drawn is None else self._requested(drawn)
        at, expected = self._most_promising()
        config = self._pool.configs[at]
        self._believed[self.space.key(config)] = expected
        return self._requested(config)

    def _requested(self, config: Config) -> Config:
        self._add(self.space.key(config), config)
        return config

    def _fill(self) -> None:
        """Renew a pool that is drawn, from time to time."""
        if self._pool.is_whole and self._pool.configs:
            return
        told = len(self._observed)
        if told < self._renew_at and self._pool.open.any():
            return
        leaders = [self._configs[key] for key in self._observed.best(_LEADERS)]
        self._pool.fill(self.seen, leaders, self._gains)
        between = min(max(self._settings.renew_first, told), self._settings.renew_last)
        self._renew_at = told + between
        self._order, self._gains = {}, None

    def _interval(self, told: int) -> int:
        for most, interval in self._settings.refit_shares:
            if told < most:
                return interval
        return self._settings.refit_last

    def _spread(self) -> int:
        """Of random configs, the one that is farthest from all that were tried."""
        free = np.flatnonzero(self._pool.open)
        drawn = self.rng.choice(free, min(len(free), self._settings.spread_over), replace=False)
        if not self._rows:
            return int(drawn[0])
        tried = np.array([*self._rows.values()][-256:])
        near = ((self._pool.rows[drawn][:, None] - tried[None]) ** 2).sum(axis=2).min(axis=1)
        return int(drawn[near.argmax()])

    def _first_estimated(self) -> int:
        """The config of the best estimate."""
        return int(np.where(self._pool.open, self._pool.estimates, np.inf).argmin())

    # The model

    def _most_promising(self) -> tuple[int, float]:
        """The place in the pool of the config to request, and what is expected of it."""
        known = self._values()
        told = len(self._observed)
        if not self._order or told >= self._fitted_at + self._interval(told):
            self._refit(known, told)
        for key, row in self._rows.items():
            if key not in self._order and (key in known or key in self._believed):
                self._process.append(row)
                self._order[key] = None
        prior = self._compression(self._pool.estimates) if self._pool.has_estimates else 0.0
        beliefs = {key: value for key, value in self._believed.items() if key not in known}
        left = {key: value - self._estimated[key] for key, value in {**beliefs, **known}.items()}
        scale, middle = self._scaled([left[key] for key in known])
        values = np.array([(left[key] - middle) / scale for key in self._order])
        expected, deviation = self._process.predict(values)
        expected = expected * scale + middle + prior
        deviation = deviation * scale
        least = min(value for key, value in known.items() if key not in self._observed.failed)
        gain = expected_improvement(least - expected, deviation)
        if self._observed.failed:
            labels = np.array([float(key in self._observed.failed) for key in self._order])
            share = float(labels.mean())
            failing = share + self._process.expect(labels - share)
            gain = gain * np.clip(1.0 - failing, 0.01, 1.0) ** self._settings.valid_power
        self._gains = gain
        gain[~self._pool.open] = -np.inf
        at = int(gain.argmax())
        return at, float(expected[at])

    def _scaled(self, values: list[float]) -> tuple[float, float]:
        """The scale and the mean of what the model is fitted to."""
        spread = float(np.std(values))
        if len(values) < 4:
            spread = max(spread, self._usual_spread)
        return spread or 1.0, float(np.mean(values))

    def _values(self) -> dict[str, float]:
        """What was told, as compressed logarithms; failures are as bad as the worst."""
        found = self._observed.logarithms()
        logs = np.array([*found.values()])
        if self._pool.has_estimates:
            below = Compression.of(self._pool.estimates, self._settings.middle)
            least = float(logs.min())
            self._compression = below
            compressed = Compression(least + below.span, below.span)(logs)
            self._usual_spread = 0.5 * float(below(self._pool.estimates).std())
        else:
            self._compression = Compression.of(logs, self._settings.middle)
            compressed = self._compression(logs)
            self._usual_spread = 0.0
        keys = self._estimates
        prior = self._compression(np.array([*keys.values()]))
        self._estimated = dict(
            zip(
                keys, prior.tolist() if self._pool.has_estimates else [0.0] * len(keys), strict=True
            )
        )
        known = dict(zip(found, compressed.tolist(), strict=True))
        known.update(
            dict.fromkeys(
                sorted(self._observed.failed),
                float(np.quantile(compressed, self._settings.failed_share)),
            )
        )
        return known

    def _refit(self, known: dict[str, float], told: int) -> None:
        """Fit to the configs with a result; of many, to the best and the newest."""
        keys = [key for key in self._rows if key in known]
        most = self._settings.most_fitted
        if len(keys) > most:
            kept = set(self._observed.best(most // 2))
            kept.update([key for key in keys if key not in kept][len(kept) - most :])
            keys = [key for key in keys if key in kept]
        rows = np.array([self._rows[key] for key in keys])
        values = np.array([known[key] - self._estimated[key] for key in keys])
        scale, middle = self._scaled(values.tolist())
        values = (values - middle) / scale
        if told >= self._fitted_at + self._interval(told) or self._fitted_at < 0:
            self._process.fit(rows, values)
            self._fitted_at = told
        self._process.condition(rows, self._pool.rows)
        self._order = dict.fromkeys(keys)


def expected_improvement(gain: Doubles, deviation: Doubles) -> Doubles:
    """The expected gain over the best value, where the mean gain and its deviation are known."""
    ratio = gain / deviation
    density = np.exp(-0.5 * ratio * ratio) / math.sqrt(2 * math.pi)
    return np.asarray(gain * normal_share(ratio, density) + deviation * density)


def normal_share(ratio: Doubles, density: NDArray[np.float64]) -> Doubles:
    """The normal distribution function: Abramowitz and Stegun, 26.2.17, exact to 1e-7."""
    at = 1.0 / (1.0 + 0.2316419 * np.abs(ratio))
    terms = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    tail = np.zeros_like(at)
    for term in reversed(terms):
        tail = (tail + term) * at
    tail *= density
    return np.asarray(np.where(ratio > 0, 1.0 - tail, tail))
