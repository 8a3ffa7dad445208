"""The searcher ``model``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skipjack.core import Config, Trial
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.model.observed import Observed
from skipjack.search.model.pool import Pool
from skipjack.search.model.settings import ModelSettings
from skipjack.search.model.trial_model import Doubles, TrialModel
from skipjack.search.searcher import SearchContext, Share

_LEADERS = 8
"""The best configs, from whose neighbours and children a large space's pool is drawn."""
_LAST = 256
"""Spread configs are far from so many of the last ones."""


class ModelSearch(GeneratorSearcher):
    """Requests the configs from which a model expects most, given all trials so far.

    Where nothing is known of configs, it starts with some that are far from each other. Then a
    Gaussian process predicts every config of the space, or what is drawn of a large one, and that
    of the largest expected improvement comes next: Jones, Schonlau and Welch, Efficient Global
    Optimization of Expensive Black-Box Functions (1998). Trials of related studies, a trained
    model's score or the space's own estimate are where its predictions start.

    Args:
        context: what to search.
        explore: the share of configs that are requested at random, in addition to those about which
            the model is unsure.
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
        self._pool = Pool(context, self.rng, self._settings)
        self._model = TrialModel(self._pool, self._settings)
        self._renew_at = 0
        self._gains: Doubles | None = None
        """What the model expected of the pool when it last chose."""

    def _choose_all(self, context: SearchContext) -> Batches:
        news: Iterable[Trial] = context.known
        self._fill()
        while True:
            for trial in news:
                key = self.space.key(trial.config)
                self._observed.add(key, trial)
                self._add(key, trial.config)
            config = self._next_config()
            if config is not None:
                self._add(self.space.key(config), config)
                news = yield Ask([config], wait=False)
            elif self._is_waiting:
                news = yield Ask(wait=False)  # wait for results
            else:
                return

    @property
    def _is_waiting(self) -> bool:
        return len(self.seen) > len(self.trials)

    def _add(self, key: str, config: Config) -> None:
        self._configs[key] = config
        self._model.add(key, config)

    def _next_config(self) -> Config | None:
        self._fill()
        if not self._pool.open.any() or self.rng.random() < self._explore:
            return self.fresh.draw()
        least = 1 if self._pool.has_estimates else 2
        begun = self._pool.has_estimates or len(self.seen) > self._settings.first_samples
        if not begun or self._observed.successes < least:
            if begun and self._is_waiting and self._observed.successes:
                return None  # what is pending will decide
            return self._pool.configs[self._first()]
        self._gains, expected = self._model.expected_gains(self._observed)
        at = int(self._gains.argmax())
        config = self._pool.configs[at]
        self._model.believe(self.space.key(config), float(expected[at]))
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
        self._renew_at, self._gains = told + between, None
        self._model.renewed()

    def _first(self) -> int:
        """The config of the best estimate; every second one far from all that were tried."""
        if self._pool.has_estimates and len(self.seen) % 2 == 0:
            return int(np.where(self._pool.open, self._pool.estimates, np.inf).argmin())
        free = np.flatnonzero(self._pool.open)
        drawn = self.rng.choice(free, min(len(free), self._settings.spread_over), replace=False)
        tried = self._model.rows[-_LAST:]
        if not tried:
            return int(drawn[0])
        apart = self._pool.rows[drawn][:, None] - np.array(tried)[None]
        return int(drawn[(apart**2).sum(axis=2).min(axis=1).argmax()])
