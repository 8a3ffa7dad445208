"""Games of loops as an environment of gymnasium; `skipjack.loops` registers it."""

from skipjack.learn.environment.environment import EpisodeRecord, LoopNestEnv
from skipjack.learn.environment.rewards import GameReward
from skipjack.learn.environment.spaces import GraphSpace, observation_space

__all__ = ["EpisodeRecord", "GameReward", "GraphSpace", "LoopNestEnv", "observation_space"]
