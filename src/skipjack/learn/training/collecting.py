"""Episodes are played in groups, in this process or by workers (`runs.engine_collector`).

A request is cut into groups of `GROUP` episodes, each with problems and a source of chance of its
own, and a group is always played as one batch. So the same request gives the same episodes,
whoever plays which group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.learn.policy import PolicyNetwork
from skipjack.learn.rates import close_rates
from skipjack.learn.training.episodes import Episode, Player
from skipjack.learn.training.orders import EpisodeOrder, Purpose, generator

GROUP = 16
"""Episodes that are played side by side."""


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes that are played as one batch."""

    number: int
    count: int


def groups(count: int) -> Iterator[Group]:
    """So many episodes in groups."""
    for number, start in enumerate(range(0, count, GROUP)):
        yield Group(number, min(GROUP, count - start))


def play_group(
    player: Player, network: PolicyNetwork, wanted: EpisodeOrder, group: Group, seed: int
) -> list[Episode]:
    """The episodes of one group."""
    drawn = generator(seed, wanted.iteration, Purpose.PROBLEMS, group.number)
    chosen = drawn.integers(len(player.games), size=group.count)
    chance = generator(seed, wanted.iteration, Purpose.ACTIONS, group.number)
    return player.play(
        network, chosen.tolist(), chance, greedy=wanted.greedy, explore=wanted.explore
    )


class HereCollector:
    """Plays in this process."""

    def __init__(self, player: Player, seed: int) -> None:
        self._player, self._seed = player, seed

    def collect(self, wanted: EpisodeOrder) -> list[Episode]:
        """Group after group."""
        network = PolicyNetwork(wanted.arrays)
        return [
            episode
            for group in groups(wanted.count)
            for episode in play_group(self._player, network, wanted, group, self._seed)
        ]

    def sources(self) -> dict[str, int]:
        """As the player's rates count them."""
        return dict(getattr(self._player.rates, "sources", {}))

    def close(self) -> None:
        """End the processes of rates that are measured."""
        close_rates(self._player.rates)
