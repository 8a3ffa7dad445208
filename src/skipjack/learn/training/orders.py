"""What trainers ask of players, here or in other processes. Without torch.

All chance comes from generators that are made anew for each purpose from the seed and the number of
the iteration, so the state of a trainer holds none, and a run that was interrupted goes on as if it
had not been.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.training.episodes import Episode

Arrays = Mapping[str, NDArray[np.float32]]


class Purpose(IntEnum):
    """What a generator is for."""

    WEIGHTS = 0
    PROBLEMS = 1
    ACTIONS = 2
    BATCHES = 3


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    """Episodes that a trainer asks for."""

    arrays: Arrays
    """The weights of the network that plays."""
    count: int
    iteration: int
    greedy: bool = False
    explore: float = 0.0


class Collector(Protocol):
    """Plays episodes, in this process or by workers; the same request gives the same episodes."""

    def collect(self, wanted: EpisodeOrder) -> list[Episode]:
        """Episodes of problems drawn by the seed and the iteration."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def generator(seed: int, iteration: int, purpose: Purpose, *more: int) -> np.random.Generator:
    """The source of chance for one purpose."""
    return np.random.default_rng((seed, iteration, int(purpose), *more))
