"""The configs that the model predicts: the whole space, or what is drawn of a large one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Countable, Recombining, Space
from skipjack.search.model.encoding import Encoding, Groups, Rows, encoding_of
from skipjack.search.model.estimates import Estimates
from skipjack.search.model.settings import ModelSettings
from skipjack.search.searcher import SearchContext

Doubles = NDArray[np.float64]

_SAMPLES = 64
"""Configs that show the range of each feature."""
_NEIGHBOURS_OF = 2
"""So many of the best configs have their neighbours in a pool that is drawn."""


class Pool:
    """Configs with their rows. `open` says which of them may still be requested."""

    def __init__(
        self, context: SearchContext, rng: np.random.Generator, settings: ModelSettings
    ) -> None:
        self._space, self._rng, self._settings = context.space, rng, settings
        space = context.space
        self.is_whole = isinstance(space, Countable) and space.count() <= settings.listed
        """Whether it has every config of the space."""
        self.encoding: Encoding = encoding_of(space, self._samples, settings)
        self._estimates = Estimates(context, self.encoding)
        self.groups: Groups = np.append(
            self.encoding.groups, np.full(len(self._estimates), -1, np.intp)
        )
        """The columns of rows, see `GaussianProcess`: those of the encoding, then the estimates."""
        self.configs: list[Config] = []
        self.rows: Rows = np.empty((0, len(self.groups)))
        self.estimates: Doubles = np.empty(0)
        """Each config's logarithm of a time before anything was measured; all 0 if not known."""
        self.open: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._places: dict[str, int] = {}
        self._middle: Rows | None = None
        self._scale: Rows | None = None

    @property
    def has_estimates(self) -> bool:
        """Whether something is known of configs before they are measured."""
        return len(self._estimates) > 0

    def __len__(self) -> int:
        return len(self.configs)

    def fill(self, seen: Iterable[str], best: Sequence[Config]) -> None:
        """Take the whole space, or draw anew: random configs, and relatives of the best."""
        if not (self.is_whole and self.configs):
            configs = self._listed() if self.is_whole else self._drawn(best)
            self.rows, self.estimates = self._described(configs)
            self._places = {self._space.key(config): at for at, config in enumerate(configs)}
            self.configs = configs
        self.open = np.ones(len(self.configs), np.bool_)
        for key in seen:
            self.close(key)

    def describe(self, config: Config) -> tuple[Rows, float]:
        """The row of a config, and the estimate of it."""
        at = self._places.get(self._space.key(config))
        if at is not None:
            return self.rows[at], float(self.estimates[at])
        rows, estimates = self._described([config])
        return rows[0], float(estimates[0])

    def _described(self, configs: Sequence[Config]) -> tuple[Rows, Doubles]:
        rows = self.encoding.rows(configs)
        if not len(self._estimates):
            return rows, np.zeros(len(configs))
        columns = self._estimates.columns(configs, rows)
        if self._middle is None or self._scale is None:
            self._middle = columns.mean(axis=0)
            self._scale = np.maximum(columns.std(axis=0), 1e-6)
        scaled = (columns - self._middle) / self._scale
        return np.hstack([rows, self._settings.trend * scaled]), columns[:, 0]

    def close(self, key: str) -> None:
        """This config was requested or told."""
        at = self._places.get(key)
        if at is not None:
            self.open[at] = False

    def _samples(self) -> list[Config]:
        drawn = [self._space.sample(self._rng) for _ in range(_SAMPLES)]
        return [self._space.default(), *drawn]

    def _listed(self) -> list[Config]:
        assert isinstance(self._space, Countable)
        return list(self._space.enumerate())

    def _drawn(self, best: Sequence[Config]) -> list[Config]:
        space, rng = self._space, self._rng
        count = self._settings.drawn
        found = {}
        for config in best[:_NEIGHBOURS_OF]:
            for near in space.neighbours(config):
                found[space.key(near)] = near
        if isinstance(space, Recombining) and best:
            for _ in range(count // 4):
                first, second = (best[int(at)] for at in rng.integers(len(best), size=2))
                child = space.recombine(first, second, rng) if first != second else first
                child = space.mutate(child, rng) if rng.random() < 0.7 else child
                found[space.key(child)] = child
        for _ in range(max(count // 4, count - len(found))):
            config = space.sample(rng)
            found[space.key(config)] = config
        return list(found.values())
