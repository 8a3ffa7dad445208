"""What a search was told, as numbers for its model."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Trial
from skipjack.search.searcher import cost

Doubles = NDArray[np.float64]


class Observed:
    """The results of configs by their keys. A config that was told several times has the mean."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[float]] = defaultdict(list)
        self.failed: set[str] = set()
        """Keys of configs that failed whenever they were tried."""

    def __len__(self) -> int:
        return len(self._values) + len(self.failed)

    @property
    def successes(self) -> int:
        """The number of configs with a value."""
        return len(self._values)

    def add(self, key: str, trial: Trial) -> None:
        """Record the result of a config."""
        value = cost(trial)
        if math.isfinite(value):
            self._values[key].append(value)
            self.failed.discard(key)
        elif key not in self._values:
            self.failed.add(key)

    def keys(self) -> list[str]:
        """All configs: those with a value, then those that failed."""
        return [*self._values, *sorted(self.failed)]

    def best(self, count: int) -> list[str]:
        """The configs of the lowest values, best first."""
        means = {key: sum(values) / len(values) for key, values in self._values.items()}
        return sorted(means, key=means.__getitem__)[:count]

    def logarithms(self) -> dict[str, float]:
        """Each config's value as a logarithm of a factor; lower is better.

        Values of both signs have no logarithm; they are taken relative to the median distance from
        the best.
        """
        values = np.array([sum(values) / len(values) for values in self._values.values()])
        return dict(zip(self._values, logarithms(values).tolist(), strict=True))


def logarithms(values: Doubles) -> Doubles:
    """Costs as logarithms, see `Observed.logarithms`."""
    if not len(values):
        return values
    if values.min() > 0:
        return np.asarray(np.log(values))
    if values.max() < 0:
        return np.asarray(-np.log(-values))
    above = values - values.min()
    return np.asarray(np.log1p(above / max(float(np.median(above)), 1e-300)))


def compressed(values: Doubles) -> Doubles:
    """The same above the median, but less and less apart: how bad a bad config is hardly matters.

    It keeps a model from using its flexibility for the worst configs.
    """
    if len(values) < 4:
        return values
    middle, least = float(np.median(values)), float(values.min())
    span = middle - least
    if span <= 0:
        return values
    above = np.maximum(values - middle, 0.0)
    return np.asarray(np.where(values > middle, middle + span * np.log1p(above / span), values))
