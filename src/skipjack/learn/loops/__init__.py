"""Scheduling loop nests as a game.

Importing it takes `core`, `operations` and the schedules alone: no compiler, no torch, no
gymnasium, so that many environments start in a moment.
"""

from skipjack.learn.loops.finish import finish
from skipjack.learn.loops.game import MARKS, GameState, LoopGame, MachineFacts, Preset, untuned
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.learn.loops.problems import loop_game, refusal

__all__ = [
    "MARKS",
    "MAX_LOOPS",
    "GameState",
    "LoopGame",
    "MachineFacts",
    "Preset",
    "finish",
    "loop_game",
    "refusal",
    "untuned",
]
