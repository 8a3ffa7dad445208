"""The configs that the model predicts: the whole space, or what is drawn of a large one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Countable, Recombining
from skipjack.search.model.encoding import Encoding, Groups, Rows, encoding_of
from skipjack.search.model.estimates import Estimates
from skipjack.search.model.settings import ModelSettings
from skipjack.search.searcher import SearchContext

Doubles = NDArray[np.float64]

_SAMPLES = 64
"""Configs that show the range of each feature."""
_MUTATED = 0.7
"""The share of children that are changed further."""


class Pool:
    """Configs, with their rows and estimates. `open` says which may still be requested."""

    def __init__(
        self, context: SearchContext, rng: np.random.Generator, settings: ModelSettings
    ) -> None:
        space = self._space = context.space
        self._rng, self._settings = rng, settings
        self.is_whole = isinstance(space, Countable) and space.count() <= settings.listed
        """Whether it has every config of the space."""
        self.encoding: Encoding = encoding_of(context, self._samples)
        self._estimates = Estimates(context, self.encoding)
        linear = np.full(len(self._estimates), -1, np.intp)
        self.groups: Groups = np.append(self.encoding.groups, linear)
        """The columns of rows, see `GaussianProcess`: those of the encoding, then the estimates."""
        self.configs: list[Config] = []
        self.rows: Rows = np.empty((0, len(self.groups)))
        self.estimates: Doubles = np.empty(0)
        """Each config's logarithm of a time before anything was measured; all 0 if not known."""
        self.open: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._places: dict[str, int] = {}
        self._middle = self._scale = np.zeros(len(self._estimates))

    @property
    def has_estimates(self) -> bool:
        """Whether something is known of configs before they are measured."""
        return len(self._estimates) > 0

    def fill(self, seen: Iterable[str], best: Sequence[Config], gains: Doubles | None) -> None:
        """Take the whole space, or draw: random configs, and relatives of the best.

        Of an earlier draw, the configs with the largest gains stay.
        """
        if not self.configs:
            drawn = self._listed() if self.is_whole else self._drawn(best, self._settings.drawn)
            if self.has_estimates:
                columns = self._estimates.columns(drawn, self.encoding.rows(drawn))
                self._middle = columns.mean(axis=0)
                self._scale = np.maximum(columns.std(axis=0), 1e-6)
            self.rows, self.estimates = self._described(drawn)
            self._index(drawn)
        elif not self.is_whole:
            self._renew(best, gains)
        self.open = np.ones(len(self.configs), np.bool_)
        for key in seen:
            self.close(key)

    def close(self, key: str) -> None:
        """This config was requested or told."""
        at = self._places.get(key)
        if at is not None:
            self.open[at] = False

    def describe(self, config: Config) -> tuple[Doubles, float]:
        """The row of a config, and the estimate of it."""
        at = self._places.get(self._space.key(config))
        if at is not None:
            return self.rows[at], float(self.estimates[at])
        rows, estimates = self._described([config])
        return rows[0], float(estimates[0])

    def _described(self, configs: Sequence[Config]) -> tuple[Rows, Doubles]:
        rows = self.encoding.rows(configs)
        if not self.has_estimates:
            return rows, np.zeros(len(configs))
        columns = self._estimates.columns(configs, rows)
        scaled = (columns - self._middle) / self._scale
        return np.hstack([rows, self._settings.trend * scaled]), columns[:, 0]

    def _index(self, configs: list[Config]) -> None:
        self._places = {self._space.key(config): at for at, config in enumerate(configs)}
        self.configs = configs

    def _renew(self, best: Sequence[Config], gains: Doubles | None) -> None:
        """Replace the configs of the least gain, and those that were tried."""
        usable = np.flatnonzero(self.open)
        if gains is not None:
            usable = usable[np.argsort(-gains[usable], kind="stable")]
        kept = usable[: self._settings.drawn - self._settings.renewed]
        drawn = self._drawn(best, self._settings.renewed)
        fresh = [config for config in drawn if self._space.key(config) not in self._places]
        rows, estimates = self.rows[kept], self.estimates[kept]
        if fresh:
            more_rows, more_estimates = self._described(fresh)
            rows, estimates = np.vstack([rows, more_rows]), np.append(estimates, more_estimates)
        self.rows, self.estimates = rows, estimates
        self._index([*(self.configs[at] for at in kept.tolist()), *fresh])

    def _samples(self) -> list[Config]:
        drawn = [self._space.sample(self._rng) for _ in range(_SAMPLES)]
        return [self._space.default(), *drawn]

    def _listed(self) -> list[Config]:
        assert isinstance(self._space, Countable)
        return list(self._space.enumerate())

    def _drawn(self, best: Sequence[Config], count: int) -> list[Config]:
        """A quarter neighbours of the best, an eighth children of the best, the rest random."""
        space, rng = self._space, self._rng
        found: dict[str, Config] = {}
        for config in best[:1]:
            near = space.neighbours(config)
            chosen = rng.permutation(len(near))[: count // 4].tolist()
            found.update((space.key(near[at]), near[at]) for at in chosen)
        if isinstance(space, Recombining) and best:
            for _ in range(count // 8):
                first, second = (best[at] for at in rng.integers(len(best), size=2).tolist())
                child = space.recombine(first, second, rng) if first != second else first
                child = space.mutate(child, rng) if rng.random() < _MUTATED else child
                found[space.key(child)] = child
        for _ in range(count - len(found)):
            config = space.sample(rng)
            found[space.key(config)] = config
        return list(found.values())
