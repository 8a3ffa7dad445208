"""The configs that the model predicts: the whole space, or what is drawn of a large one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Countable, Recombining, Space
from skipjack.search.model.encoding import Encoding, Rows, encoding_of
from skipjack.search.model.settings import ModelSettings

_SAMPLES = 64
"""Configs that show the range of each feature."""
_NEIGHBOURS_OF = 2
"""So many of the best configs have their neighbours in a pool that is drawn."""


class Pool:
    """Configs with their rows. `open` says which of them may still be requested."""

    def __init__(self, space: Space, rng: np.random.Generator, settings: ModelSettings) -> None:
        self._space, self._rng, self._settings = space, rng, settings
        self.is_whole = isinstance(space, Countable) and space.count() <= settings.listed
        """Whether it has every config of the space."""
        self.encoding: Encoding = encoding_of(space, self._samples)
        self.configs: list[Config] = []
        self.rows: Rows = np.empty((0, len(self.encoding.groups)))
        self.open: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.configs)

    def fill(self, seen: Iterable[str], best: Sequence[Config]) -> None:
        """Take the whole space, or draw anew: random configs, and relatives of the best."""
        if not (self.is_whole and self.configs):
            configs = self._listed() if self.is_whole else self._drawn(best)
            self._places = {self._space.key(config): at for at, config in enumerate(configs)}
            self.configs = configs
            self.rows = self.encoding.rows(configs)
        self.open = np.ones(len(self.configs), np.bool_)
        for key in seen:
            self.close(key)

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
