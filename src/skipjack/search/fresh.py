"""Random configs that were not seen before, until there are none left."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from skipjack.core.config import Config
from skipjack.core.space import Countable, Space

_TRIES = 32
_LISTABLE = 20_000


class FreshConfigs:
    """Draws from a space without repeating what is in `seen`, which its owner keeps up to date."""

    def __init__(self, space: Space, seen: Set[str], rng: np.random.Generator) -> None:
        self._space = space
        self._seen = seen
        self._rng = rng
        self._rest: Iterator[Config] | None = None

    def draw(self) -> Config | None:
        """A config not seen before; None once there is none to be found."""
        if self._rest is None:
            for _ in range(_TRIES):
                config = self._space.sample(self._rng)
                if self._space.key(config) not in self._seen:
                    return config
            # Nearly all was seen, so from here on what is left is listed.
            self._rest = self._leftover()
        return next(self._rest, None)

    def several(self, count: int) -> list[Config]:
        """Up to `count` distinct ones."""
        distinct: dict[str, Config] = {}
        for _ in range(count):
            config = self.draw()
            if config is not None:
                distinct[self._space.key(config)] = config
        return list(distinct.values())

    def _leftover(self) -> Iterator[Config]:
        space = self._space
        if not isinstance(space, Countable):
            draws: Iterator[Config] = (space.sample(self._rng) for _ in range(10 * _TRIES))
        elif space.count() <= _LISTABLE:
            listed = list(space.enumerate())
            draws = (listed[at] for at in self._rng.permutation(len(listed)))
        else:
            draws = space.enumerate()
        for config in draws:
            if self._space.key(config) not in self._seen:
                yield config


def scout_count(trials: int | None) -> int:
    """How many random configs to look at before settling where to search: an eighth, 4 to 16."""
    return 16 if trials is None else max(4, min(16, trials // 8))
