"""Configs as rows of numbers: rows are near if configs are likely to behave alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skipjack.core import Config, Pinnable, Space, Value
from skipjack.models import CandidateFeatures
from skipjack.search.searcher import SearchContext

Rows = NDArray[np.float64]
Doubles = NDArray[np.float64]
Groups = NDArray[np.intp]

_ESTIMATE = "estimate"
"""The feature of candidates that estimates the time, in schedules of nests."""
_DIMENSIONS = 4
"""Rows of features are as far apart as those of so many settings."""
_MANY_SIZES = 5
"""Settings with fewer sizes have no column for their alignment."""


class Encoding(Protocol):
    """Makes rows of configs of one space."""

    groups: Groups
    """The setting that each column belongs to: distances in them have one scale."""

    def rows(self, configs: Sequence[Config]) -> Rows:
        """A row for each config."""

    def accepts(self, config: Config) -> bool:
        """Whether a config, which need not be legal, has a row."""

    def estimates(self, configs: Sequence[Config]) -> Doubles | None:
        """The logarithms of the times that features estimate; None if none does."""


def encoding_of(context: SearchContext, samples: Callable[[], Sequence[Config]]) -> Encoding:
    """By the settings of the space; without settings, by the features of candidates or the space.

    `samples` are configs that show the range of each feature.
    """
    space = context.space
    if isinstance(space, Pinnable):
        return SettingsEncoding(space.choices())
    if context.problem is None or context.device is None:
        return FeaturesEncoding(space, _features_of(space), samples())
    described = CandidateFeatures(context.problem, context.device, space)
    estimate = described.names.index(_ESTIMATE) if _ESTIMATE in described.names else None
    return FeaturesEncoding(space, described.rows, samples(), estimate)


def _features_of(space: Space) -> Callable[[Sequence[Config]], ArrayLike]:
    return lambda configs: [space.features(config) for config in configs]


class SettingsEncoding:
    """Numbers are placed from 0 to 1 by rank and logarithm; different texts have the distance 1.

    Sizes that are not all powers of two have a further column: how often they can be halved.
    """

    def __init__(self, choices: Mapping[str, Sequence[Value]]) -> None:
        self._tables: list[tuple[str, dict[Value, Doubles]]] = []
        groups: list[int] = []
        for name, values in choices.items():
            if len(values) < 2:
                continue
            for columns in filter(None, (_places(values), _alignment(values))):
                groups += [len(self._tables)] * len(columns[0])
                self._tables.append((name, dict(zip(values, columns, strict=True))))
        self.groups: Groups = np.array(groups or [0], np.intp)

    def rows(self, configs: Sequence[Config]) -> Rows:
        if not self._tables:
            return np.zeros((len(configs), 1))
        columns = [
            np.array([table[config[name]] for config in configs]).reshape(len(configs), -1)
            for name, table in self._tables
        ]
        return np.concatenate(columns, axis=1)

    def accepts(self, config: Config) -> bool:
        return all(config.get(name) in table for name, table in self._tables)

    def estimates(self, configs: Sequence[Config]) -> Doubles | None:
        return None


def _places(values: Sequence[Value]) -> list[Doubles]:
    """The columns of a setting for each of its values."""
    if any(isinstance(value, str) for value in values):
        return [*(np.eye(len(values)) / math.sqrt(2))]
    numbers = np.array([float(value) for value in values])
    rank = numbers.argsort().argsort() / (len(values) - 1)
    size = np.log(numbers) if numbers.min() > 0 else numbers
    size = (size - size.min()) / (size.max() - size.min())
    return [*((rank + size)[:, None] / 2)]


def _alignment(values: Sequence[Value]) -> list[Doubles] | None:
    """How often each size can be halved, where this is not clear from the size itself."""
    sizes = [value for value in values if type(value) is int and value > 0]
    if len(sizes) < max(_MANY_SIZES, len(values)):
        return None
    halved = np.array([(size & -size).bit_length() for size in sizes], np.float64)
    span = halved.max() - halved.min()
    if not span or all(size & (size - 1) == 0 for size in sizes):
        return None
    return [*((halved - halved.min())[:, None] / span)]


class FeaturesEncoding:
    """Features, each from 0 to 1 over the samples; constant ones are left out.

    Args:
        space: the space of the configs.
        features: gives the features of configs.
        samples: show the range of each feature.
        estimate: the feature that estimates the binary logarithm of the time.
    """

    def __init__(
        self,
        space: Space,
        features: Callable[[Sequence[Config]], ArrayLike],
        samples: Sequence[Config],
        estimate: int | None = None,
    ) -> None:
        self._space, self._features, self._estimate = space, features, estimate
        self._known: dict[str, Doubles] = {}
        seen = self._found(samples)
        low, high = seen.min(axis=0), seen.max(axis=0)
        self._used = np.flatnonzero(high > low)
        self._low, self._span = low[self._used], (high - low)[self._used]
        self.groups: Groups = np.zeros(max(1, len(self._used)), np.intp)

    def rows(self, configs: Sequence[Config]) -> Rows:
        if not len(self._used) or not len(configs):
            return np.zeros((len(configs), len(self.groups)))
        scaled = (self._found(configs)[:, self._used] - self._low) / self._span
        return np.asarray(scaled * math.sqrt(_DIMENSIONS / len(self._used)))

    def accepts(self, config: Config) -> bool:
        return self._space.contains(config)

    def estimates(self, configs: Sequence[Config]) -> Doubles | None:
        if self._estimate is None:
            return None
        return np.asarray(self._found(configs)[:, self._estimate] * math.log(2))

    def _found(self, configs: Sequence[Config]) -> Rows:
        """The features of configs, which take long; they are kept."""
        keys = [self._space.key(config) for config in configs]
        new = {k: c for k, c in zip(keys, configs, strict=True) if k not in self._known}
        if new:
            rows = np.asarray(self._features([*new.values()]), np.float64).reshape(len(new), -1)
            self._known.update(zip(new, rows, strict=True))
        return np.array([self._known[key] for key in keys])
