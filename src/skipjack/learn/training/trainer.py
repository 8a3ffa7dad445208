"""What trainers have in common: what an iteration says of itself, and what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from skipjack.learn.training.episodes import Episode, Views
from skipjack.learn.training.network import Batch
from skipjack.learn.training.orders import Collector, Purpose, generator

Curves = dict[str, float]
"""What an iteration says of itself, by the column of ``curves.csv``."""


class Trainer(Protocol):
    """Learns from episodes, an iteration at a time."""

    iteration: int
    steps: int
    """Actions that were played so far."""

    def iterate(self, collector: Collector) -> tuple[Curves, list[Episode]]:
        """Play some episodes and learn from them."""
        ...

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network as it is now."""
        ...

    def state(self) -> dict[str, Any]:
        """All that going on needs: tensors, numbers, texts, lists and dicts of them."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        ...


def torch_seed(seed: int) -> None:
    """Give the weights that are drawn next by torch."""
    torch.manual_seed(int(generator(seed, 0, Purpose.WEIGHTS).integers(2**62)))


def batch_of(views: Views) -> Batch:
    """As tensors, without rows that are padding in all of them."""
    most = max(1, int(views.present.sum(axis=1).max(initial=1)))
    # Copies, for torch aligns its own memory: products of matrices that lie otherwise may differ in
    # the last bit, and a resumed run would be another one.
    return Batch(
        torch.tensor(views.rows[:, :most]),
        torch.tensor(views.present[:, :most]),
        torch.tensor(views.cursor),
        torch.tensor(views.machine),
        torch.tensor(views.mask),
    )


def summary(episodes: Sequence[Episode]) -> Curves:
    """What episodes say by themselves."""
    speed_ups = np.array([each.speed_up for each in episodes])
    return {
        "episodes": len(episodes),
        "episode_steps": float(np.mean([len(each) for each in episodes])),
        "episode_reward": float(np.mean([each.rewards.sum() for each in episodes])),
        "speed_up": float(np.exp(np.log(speed_ups).mean())),
        "best_speed_up": float(speed_ups.max()),
    }
