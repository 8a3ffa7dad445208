"""Search spaces. Every space has the methods of `Space`; it may also have capabilities.

A capability is a further protocol, for which searchers test with ``isinstance``:

==============  =========================================================================
`Countable`     knows its size and can enumerate its configs
`Recombining`   makes legal children of two legal parents, and legal mutants of one
`Staged`        knows which part of a config decides the build (the rest is set at run time)
`Promising`     can rank configs before anything is measured
`Pinnable`      knows the values of its settings, and can be restricted to some of them
`Adaptable`     finds the config that is nearest to one of another problem's space
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
        """The config to use without tuning; always legal."""
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
        """Numbers that describe the config, always equally many for this space."""
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
    """A space for evolutionary search, whose children are legal by construction."""

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """A legal child with values of both parents."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A legal config that differs from this one, if the space has another one."""
        ...


@runtime_checkable
class Staged(Protocol):
    """A space with build-time and run-time parameters."""

    def build_part(self, config: Config) -> Config:
        """The settings that determine the build; configs with equal parts share one."""
        ...


@runtime_checkable
class Pinnable(Protocol):
    """A space of settings that can be fixed at a value."""

    def choices(self) -> Mapping[str, Sequence[Value]]:
        """The values of every setting, by name."""
        ...

    def pinned(self, settings: Mapping[str, Value]) -> Space:
        """The configs with these settings; `SpaceError` if there are none."""
        ...


@runtime_checkable
class Promising(Protocol):
    """A space that can suggest configs to start with."""

    def promising(self, count: int) -> Sequence[Config]:
        """Up to `count` distinct legal configs, in the order in which to try them."""
        ...


@runtime_checkable
class Adaptable(Protocol):
    """A space that can use configs of spaces of the same solver, for other problems or devices."""

    def adapted(self, config: Config) -> Config | None:
        """The legal config nearest to one that need not be legal here; None if none is near."""
        ...


def adapted(space: Space, config: Config) -> Config | None:
    """A config of another problem in this space: itself if it is legal, else the nearest one."""
    if space.contains(config):
        return config
    return space.adapted(config) if isinstance(space, Adaptable) else None
