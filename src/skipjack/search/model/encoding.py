"""Configs as rows of numbers: rows are near if configs are likely to behave alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Pinnable, Space, Value

Rows = NDArray[np.float64]
Groups = NDArray[np.intp]


class Encoding(Protocol):
    """Makes rows of configs of one space."""

    groups: Groups
    """The setting that each column belongs to: distances in them have one scale."""

    def rows(self, configs: Sequence[Config]) -> Rows:
        """A row for each config."""
        ...

    def accepts(self, config: Config) -> bool:
        """Whether a config, which need not be legal, has a row."""
        ...


def encoding_of(space: Space, samples: Callable[[], Sequence[Config]]) -> Encoding:
    """By the settings of the space, or by its features if it has none.

    `samples` are configs that show the range of each feature.
    """
    if isinstance(space, Pinnable):
        return SettingsEncoding(space.choices())
    return FeaturesEncoding(space, samples())


class SettingsEncoding:
    """Numbers are placed from 0 to 1 by rank and logarithm; different texts have the distance 1."""

    def __init__(self, choices: Mapping[str, Sequence[Value]]) -> None:
        self._tables: list[tuple[str, dict[Value, NDArray[np.float64]]]] = []
        groups: list[int] = []
        for name, values in choices.items():
            if len(values) < 2:
                continue
            places = _places(values)
            groups += [len(self._tables)] * places.shape[1]
            self._tables.append((name, dict(zip(values, places, strict=True))))
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


def _places(values: Sequence[Value]) -> Rows:
    """The columns of a setting, one row for each of its values."""
    if any(isinstance(value, str) for value in values):
        return np.eye(len(values)) / math.sqrt(2)
    numbers = np.array([float(value) for value in values])
    rank = numbers.argsort().argsort() / (len(values) - 1)
    size = np.log(numbers) if numbers.min() > 0 else numbers
    span = size.max() - size.min()
    size = (size - size.min()) / span if span > 0 else rank
    return np.asarray((rank + size)[:, None] / 2)


class FeaturesEncoding:
    """The features of the space, each from 0 to 1 over the samples; constant ones are left out."""

    def __init__(self, space: Space, samples: Sequence[Config]) -> None:
        self._space = space
        seen = np.array([space.features(config) for config in samples], np.float64)
        seen = seen.reshape(len(samples), -1)
        low, high = seen.min(axis=0), seen.max(axis=0)
        self._used = np.flatnonzero(high > low)
        self._low, self._span = low[self._used], (high - low)[self._used]
        self.groups: Groups = np.zeros(max(1, len(self._used)), np.intp)

    def rows(self, configs: Sequence[Config]) -> Rows:
        if not len(self._used):
            return np.zeros((len(configs), 1))
        found = np.array([self._space.features(config) for config in configs], np.float64)
        scaled = (found.reshape(len(configs), -1)[:, self._used] - self._low) / self._span
        return np.asarray(scaled * math.sqrt(4 / len(self._used)))

    def accepts(self, config: Config) -> bool:
        return self._space.contains(config)
