"""What a worker of an engine does for training: it plays groups of episodes. Without torch.

A task of the fleet carries the order as JSON in its facts, and the setup and the weights as
artifacts; its outcome has the episodes as one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from skipjack import plugins
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.learn.policy import PolicyNetwork
from skipjack.learn.rates import close_rates
from skipjack.learn.runs.setup import PlayerSetup
from skipjack.learn.training.collecting import Group, play_group
from skipjack.learn.training.episodes import Player, packed, unpacked_arrays
from skipjack.learn.training.orders import EpisodeOrder
from skipjack.reading import read_json
from skipjack.settings import load_settings


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """One group of episodes to play."""

    setup: str
    """The digest of a `PlayerSetup`."""
    weights: str
    """The digest of the network's arrays."""
    seed: int
    iteration: int
    group: int
    count: int
    greedy: bool
    explore: float


class EpisodeWorker:
    """Plays; keeps the games and rates of the last setup, and the last network."""

    def __init__(self) -> None:
        self._player: tuple[str, Player] | None = None
        self._network: tuple[str, PolicyNetwork] | None = None

    def perform(self, task: Task) -> Outcome:
        """Play the group of a task."""
        order = read_json(task.facts[0], "an order of episodes").of(GroupOrder)
        player = self._player_of(order.setup, task.artifacts[order.setup])
        network = self._network_of(order.weights, task.artifacts[order.weights])
        wanted = EpisodeOrder({}, order.count, order.iteration, order.greedy, order.explore)
        group = Group(order.group, order.count)
        data = packed(play_group(player, network, wanted, group, order.seed))
        return Outcome(
            task.job,
            task.stage,
            finished=True,
            artifacts={digest(data): data},
            result={"sources": dict(getattr(player.rates, "sources", {}))},
            attempt=task.attempt,
        )

    def _player_of(self, name: str, data: bytes) -> Player:
        if self._player is None or self._player[0] != name:
            self.close()
            self._player = name, PlayerSetup.of(data).player()
        return self._player[1]

    def _network_of(self, name: str, data: bytes) -> PolicyNetwork:
        if self._network is None or self._network[0] != name:
            self._network = name, PolicyNetwork(unpacked_arrays(data))
        return self._network[1]

    def close(self) -> None:
        """End what the rates started."""
        if self._player is not None:
            close_rates(self._player[1].rates)
            self._player = None


def make_player(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> EpisodeWorker:
    """The factory that engines are given."""
    plugins.load(load_settings().plugins)
    return EpisodeWorker()


def digest(data: bytes) -> str:
    """As tasks name their artifacts."""
    return hashlib.sha256(data).hexdigest()


def order_text(order: GroupOrder) -> str:
    """As a fact of a task."""
    return json.dumps({name: getattr(order, name) for name in GroupOrder.__slots__})
