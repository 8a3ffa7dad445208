"""Configs as rows of numbers: rows are near if configs are likely to behave alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Pinnable, Space, Value
from skipjack.search.model.settings import ModelSettings

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


def encoding_of(space: Space, samples: Callable[[], Sequence[Config]], settings: ModelSettings) -> Encoding:
    """By the settings of the space, or by its features if it has none.

    `samples` are configs that show the range of each feature.
    """
    if isinstance(space, Pinnable):
        return SettingsEncoding(space.choices(), settings)
    return FeaturesEncoding(space, samples())


class SettingsEncoding:
    """Numbers are placed from 0 to 1 by rank and logarithm; different texts have the distance 1."""

    def __init__(self, choices: Mapping[str, Sequence[Value]], settings: ModelSettings) -> None:
        self._tables: list[tuple[str, dict[Value, NDArray[np.float64]]]] = []
        groups: list[int] = []
        group = 0
        for name, values in choices.items():
            if len(values) < 2:
                continue
            places = _places(values)
            groups += [group] * places.shape[1]
            self._tables.append((name, dict(zip(values, places, strict=True))))
            group += 1
            aligned = _alignment(values) if settings.aligned else None
            if aligned is not None:
                groups.append(group)
                self._tables.append((name, dict(zip(values, settings.aligned * aligned, strict=True))))
                group += 1
            if settings.slope:
                numeric = places.shape[1] == 1
                places = places - places.mean(axis=0)
                groups += [-1] * places.shape[1]
                self._tables.append((name, dict(zip(values, settings.slope * places, strict=True))))
        self._sizes = [n for n, v in choices.items() if len(v) > 1 and all(type(x) is int and x > 0 for x in v)]
        self._total = settings.total
        if self._total and len(self._sizes) > 1:
            groups.append(group)
            self._span = [sum(math.log(f(choices[n])) for n in self._sizes) for f in (min, max)]
        self.groups: Groups = np.array(groups or [0], np.intp)

    def rows(self, configs: Sequence[Config]) -> Rows:
        if not self._tables:
            return np.zeros((len(configs), 1))
        columns = [
            np.array([table[config[name]] for config in configs]).reshape(len(configs), -1)
            for name, table in self._tables
        ]
        if self._total and len(self._sizes) > 1:
            low, high = self._span
            t = np.array([sum(math.log(c[n]) for n in self._sizes) for c in configs])
            columns.append(self._total * ((t - low) / (high - low))[:, None])
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


def _alignment(values: Sequence[Value]) -> Rows | None:
    """How often each size can be halved, where this is not clear from the size itself."""
    if len(values) < 5 or not all(type(value) is int and value > 0 for value in values):
        return None
    halved = np.array([(v & -v).bit_length() - 1.0 for v in values if isinstance(v, int)])
    span = halved.max() - halved.min()
    if not span or len(set(halved.tolist())) == len(values):
        return None
    return np.asarray(((halved - halved.min()) / span)[:, None])


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
