"""Loop nests as a game: importing this registers the environments of gymnasium.

::

    import gymnasium, skipjack.loops
    env = gymnasium.make("skipjack/LoopNest-v0", dataset="matmul:128x128x128", preset="looptune")

What is here works without gymnasium, too; only the environments need it.
"""

from skipjack.learn.loops import GameState, LoopGame, Preset, loop_game

__all__ = ["GameState", "LoopGame", "Preset", "loop_game"]
