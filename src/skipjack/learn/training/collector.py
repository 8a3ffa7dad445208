"""Requests for episodes, and how groups of episodes are played for them. Without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.policy import PolicyNetwork
from skipjack.learn.rates import close_rates
from skipjack.learn.training.episodes import Episode, Player

# Requests of trainers for episodes.
#
# Random generators are created for each purpose from the seed and the number of the iteration, so
# the state of a trainer contains none, and a resumed run continues exactly as if it had not been
# interrupted.

Arrays = Mapping[str, NDArray[np.float32]]


class Purpose(IntEnum):
    """The purpose of a random generator."""

    WEIGHTS = 0
    PROBLEMS = 1
    ACTIONS = 2
    BATCHES = 3


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """A request of a trainer for episodes."""

    arrays: Arrays
    """The weights of the network that plays."""
    count: int
    iteration: int
    greedy: bool = False
    explore: float = 0.0


class Collector(Protocol):
    """Plays episodes; the same request gives the same episodes."""

    def collect(self, request: EpisodeRequest) -> list[Episode]:
        """Episodes of problems drawn by the seed and the iteration."""
        ...

    def close(self) -> None:
        """End the processes that were started."""
        ...


def generator(seed: int, iteration: int, purpose: Purpose, *more: int) -> np.random.Generator:
    """The random generator for one purpose."""
    return np.random.default_rng((seed, iteration, int(purpose), *more))


# Playing episodes in groups, in this process or by workers (`runs.engine_collector`).
#
# A request is divided into groups of `GROUP` episodes, each with its own problems and random
# generator, and a group is always played as one batch. So the same request gives the same episodes,
# whichever worker plays a group.

GROUP = 16
"""The number of episodes that are played as one batch."""


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes that are played as one batch."""

    number: int
    count: int


def groups(count: int) -> Iterator[Group]:
    """The groups of this many episodes."""
    for number, start in enumerate(range(0, count, GROUP)):
        yield Group(number, min(GROUP, count - start))


def play_group(
    player: Player, network: PolicyNetwork, request: EpisodeRequest, group: Group, seed: int
) -> list[Episode]:
    """The episodes of one group."""
    drawn = generator(seed, request.iteration, Purpose.PROBLEMS, group.number)
    chosen = drawn.integers(len(player.games), size=group.count)
    chance = generator(seed, request.iteration, Purpose.ACTIONS, group.number)
    return player.play(
        network, chosen.tolist(), chance, greedy=request.greedy, explore=request.explore
    )


class InProcessCollector:
    """Plays in this process."""

    def __init__(self, player: Player, seed: int) -> None:
        self._player, self._seed = player, seed

    def collect(self, request: EpisodeRequest) -> list[Episode]:
        """Play the groups one after another."""
        network = PolicyNetwork(request.arrays)
        return [
            episode
            for group in groups(request.count)
            for episode in play_group(self._player, network, request, group, self._seed)
        ]

    def sources(self) -> dict[str, int]:
        """The counts of the player's rates."""
        return dict(getattr(self._player.rates, "sources", {}))

    def close(self) -> None:
        """Close the player's rates."""
        close_rates(self._player.rates)
