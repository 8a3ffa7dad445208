"""The interface of trainers, and functions that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from skipjack.learn.training.collector import Collector, Purpose, generator
from skipjack.learn.training.episodes import Episode, Views
from skipjack.learn.training.network import Batch

Curves = dict[str, float]
"""The numbers of an iteration by column of ``curves.csv``."""


class Trainer(Protocol):
    """Learns from episodes, an iteration at a time."""

    iteration: int
    steps: int
    """The number of actions played so far."""

    def iterate(self, collector: Collector) -> tuple[Curves, list[Episode]]:
        """Play some episodes and learn from them."""
        ...

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network as it is now."""
        ...

    def state(self) -> dict[str, Any]:
        """The state from which training can be resumed: tensors, numbers, strings, lists, dicts."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        ...


def torch_seed(seed: int) -> None:
    """Seed torch's generator for the initial weights."""
    torch.manual_seed(int(generator(seed, 0, Purpose.WEIGHTS).integers(2**62)))


def batch_of(views: Views) -> Batch:
    """Views as tensors, without rows that are padding in all states."""
    most = max(1, int(views.present.sum(axis=1).max(initial=1)))
    # Copy, because torch aligns its own memory: products of unaligned matrices may differ in the
    # last bit, and a resumed run would differ.
    return Batch(
        torch.tensor(views.rows[:, :most]),
        torch.tensor(views.present[:, :most]),
        torch.tensor(views.cursor),
        torch.tensor(views.machine),
        torch.tensor(views.mask),
    )


def summary(episodes: Sequence[Episode]) -> Curves:
    """The curves of episodes that do not depend on the trainer."""
    speed_ups = np.array([each.speed_up for each in episodes])
    return {
        "episodes": len(episodes),
        "episode_steps": float(np.mean([len(each) for each in episodes])),
        "episode_reward": float(np.mean([each.rewards.sum() for each in episodes])),
        "speed_up": float(np.exp(np.log(speed_ups).mean())),
        "best_speed_up": float(speed_ups.max()),
    }
