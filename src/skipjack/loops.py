"""Loop nests as a game: importing this registers the environments of gymnasium.

::

    import gymnasium, skipjack.loops
    env = gymnasium.make("skipjack/LoopNest-v0", dataset="matmul:128x128x128", preset="looptune")

Only the environments need gymnasium; everything else works without it.
"""

from importlib.util import find_spec

from skipjack.learn.loops import (
    GameState,
    LoopDataset,
    LoopGame,
    Preset,
    find_problems,
    loop_game,
    observe,
    read_dataset,
)
from skipjack.learn.policy import Policy, greedy, read_policy, shipped
from skipjack.learn.rates import Rates, open_rates

ENVIRONMENT = "skipjack/LoopNest-v0"

__all__ = [
    "ENVIRONMENT",
    "GameState",
    "LoopDataset",
    "LoopGame",
    "Policy",
    "Preset",
    "Rates",
    "find_problems",
    "greedy",
    "loop_game",
    "observe",
    "open_rates",
    "read_dataset",
    "read_policy",
    "shipped",
]

if find_spec("gymnasium"):
    import gymnasium

    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(ENVIRONMENT, "skipjack.learn.environment:LoopNestEnv")
