"""What may vary. A space has five verbs that every searcher can rely on, and capabilities.

A capability is a protocol that a space may satisfy besides; searchers ask with ``isinstance``:

==============  =========================================================================
`Countable`     knows its size and can list itself
`Recombining`   makes legal children of two legal parents, and legal mutants of one
`Staged`        knows which part of a config decides the build (the rest is set at run time)
`Promising`     can name configs that are good before anything was measured, best first
`Pinnable`      knows the values of its settings, and the part of it that has some of them
==============  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from skipjack.core.config import Config, Value


class Space(Protocol):
    """The set of legal configs of a candidate. All methods are pure; configs are in normal form."""

    def default(self) -> Config:
        """The config one would use without tuning; always legal."""
        ...

    def contains(self, config: Config) -> bool:
        """Whether the config is legal and in normal form."""
        ...

    def sample(self, rng: np.random.Generator) -> Config:
        """A random legal config (uniform where the space is `Countable`)."""
        ...

    def neighbours(self, config: Config) -> Sequence[Config]:
        """Legal configs one small step away, distinct, in a fixed order, without the config."""
        ...

    def key(self, config: Config) -> str:
        """Canonical text of a config: equal text means the same point."""
        ...

    def features(self, config: Config) -> tuple[float, ...]:
        """Numbers that describe the config, of a fixed length for this space."""
        ...


@runtime_checkable
class Countable(Protocol):
    """A space that knows how many configs it has."""

    def count(self) -> int:
        """The number of legal configs."""
        ...

    def enumerate(self) -> Iterator[Config]:
        """Every legal config once, in a fixed order, lazily."""
        ...


@runtime_checkable
class Recombining(Protocol):
    """A space that breeds: children are legal by construction."""

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """A legal child that takes after both parents."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A legal config that differs from this one, where the space has more than one."""
        ...


@runtime_checkable
class Staged(Protocol):
    """A space with build-time and run-time parameters."""

    def build_part(self, config: Config) -> Config:
        """The settings that decide what is built; equal parts share one build."""
        ...


@runtime_checkable
class Pinnable(Protocol):
    """A space of settings that can be held at a value."""

    def choices(self) -> Mapping[str, Sequence[Value]]:
        """The values of every setting, by its name."""
        ...

    def pinned(self, settings: Mapping[str, Value]) -> Space:
        """The configs that have these settings; `SpaceError` if none has all of them."""
        ...


@runtime_checkable
class Promising(Protocol):
    """A space that starts well."""

    def promising(self, count: int) -> Sequence[Config]:
        """Up to `count` distinct legal configs in the order in which to try them."""
        ...
