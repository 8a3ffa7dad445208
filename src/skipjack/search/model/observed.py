"""What a search was told, as numbers for its model."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Trial
from skipjack.search.searcher import cost

Doubles = NDArray[np.float64]

_FEW = 4
_LEAST_SPAN = 1e-9


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


@dataclass(frozen=True, slots=True)
class Compression:
    """Leaves values up to a limit, and moves those above less and less apart.

    How bad a bad config is hardly matters: a model should not use its flexibility for that.
    """

    limit: float
    span: float
    """The distance of the limit from the best; above, distances of this size are halved."""

    @classmethod
    def of(cls, values: Doubles, share: float) -> Compression:
        """With this share of the values below the limit."""
        if len(values) < _FEW:
            return cls(math.inf, 1.0)
        limit = float(np.quantile(values, share))
        return cls(limit, max(limit - float(values.min()), _LEAST_SPAN))

    def __call__(self, values: Doubles) -> Doubles:
        above = np.maximum(values - self.limit, 0.0)
        return np.asarray(values - above + self.span * np.log1p(above / self.span))
