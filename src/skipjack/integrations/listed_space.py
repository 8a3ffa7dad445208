"""A space that is a list of configs, in the order in which to try them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from skipjack.core.config import Config, Value
from skipjack.errors import SpaceError


class ListedSpace:
    """These configs and no others. Implements `Space`, `Countable` and `Promising`."""

    def __init__(self, configs: Sequence[Mapping[str, Value]]) -> None:
        self._configs = list(dict.fromkeys(Config(config) for config in configs))
        self._places = {config: at for at, config in enumerate(self._configs)}
        if not self._configs:
            raise SpaceError("a list of configs is empty; give at least one")

    def default(self) -> Config:
        """The first."""
        return self._configs[0]

    def contains(self, config: Config) -> bool:
        return config in self._places

    def sample(self, rng: np.random.Generator) -> Config:
        """Any, each as likely."""
        return self._configs[int(rng.integers(len(self._configs)))]

    def neighbours(self, config: Config) -> Sequence[Config]:
        """Those with the fewest settings changed."""
        others = [other for other in self._configs if other != config]
        apart = [len(set(other.items()) ^ set(config.items())) for other in others]
        return [o for o, far in zip(others, apart, strict=True) if far == min(apart)]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        """Its place in the list."""
        return (float(self._places[config]),)

    def count(self) -> int:
        return len(self._configs)

    def enumerate(self) -> Iterator[Config]:
        return iter(self._configs)

    def promising(self, count: int) -> Sequence[Config]:
        """The first ones: who lists configs knows why."""
        return self._configs[:count]

    @property
    def digest(self) -> str:
        """What tells this list from another."""
        return "|".join(config.key for config in self._configs)
