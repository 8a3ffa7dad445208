"""The scheduling game as an environment of Gymnasium; `skipjack.loops` registers it."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.environment.environment import EpisodeRecord, LoopNestEnv
    from skipjack.learn.environment.spaces import GameReward, GraphSpace, observation_space

__all__ = [
    "EpisodeRecord",
    "GameReward",
    "GraphSpace",
    "LoopNestEnv",
    "observation_space",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "environment": "EpisodeRecord LoopNestEnv",
        "spaces": "GameReward GraphSpace observation_space",
    },
)
