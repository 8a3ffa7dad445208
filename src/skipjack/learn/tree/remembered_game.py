"""A game that is played over and over: masks, states and schedules are worked out once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.loops import GameState, LoopGame
from skipjack.solvers.cpu.nest import Schedule


class RememberedGame(LoopGame):
    """The same game, with a memory; searches pass through the same states all the time."""

    def __init__(self, game: LoopGame) -> None:
        vars(self).update(vars(game))
        self._masks: dict[GameState, NDArray[np.bool_]] = {}
        self._after: dict[tuple[GameState, int], GameState] = {}
        self._built: dict[GameState, Schedule] = {}

    def mask(self, state: GameState) -> NDArray[np.bool_]:
        """For every action whether it is legal; not to be written to."""
        found = self._masks.get(state)
        if found is None:
            found = self._masks[state] = super().mask(state)
            found.flags.writeable = False
        return found

    def apply(self, state: GameState, action: int) -> GameState:
        """The state after an action; `ScheduleError` if it is not legal."""
        found = self._after.get((state, action))
        if found is None:
            found = self._after[state, action] = super().apply(state, action)
        return found

    def built(self, state: GameState) -> Schedule:
        """What is compiled and measured."""
        found = self._built.get(state)
        if found is None:
            found = self._built[state] = super().built(state)
        return found
