"""Paths through the game, and the interface of searches.

A search is a generator: it yields paths to measure and receives their seconds, infinite if a
schedule cannot be built. It need not count: `run_search` keeps the budget, answers known schedules
from memory, and ends the generator when the budget is spent::

    def first_action_only(context):
        start = context.start()
        yield [start, *successors(context.game, start)]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.loops import GameState, LoopGame

STOP = "stop"
"""The action that ends an episode. It does not change the schedule, so searches omit it."""


@dataclass(frozen=True, slots=True)
class GamePath:
    """A state of the game, and the actions that lead to it from the start."""

    state: GameState
    actions: tuple[int, ...] = ()


Prior = Callable[[LoopGame, GamePath], NDArray[np.floating]]
"""Returns a non-negative weight for each action; those of illegal actions are ignored."""
RunningSearch = Generator[Sequence[GamePath], list[float], None]
"""A running search."""


@dataclass(frozen=True, slots=True)
class TreeContext:
    """The context of a search."""

    game: LoopGame
    rng: np.random.Generator
    actions: int
    """The most actions of a path."""
    measurements: int | None
    """The most distinct schedules to measure; None for no limit."""

    def start(self) -> GamePath:
        """The path without actions."""
        return GamePath(self.game.start())


TreeSearch = Callable[[TreeContext], RunningSearch]


def legal(game: LoopGame, state: GameState) -> list[int]:
    """The legal actions except `STOP`."""
    if state.stopped:
        return []
    return [int(at) for at in np.flatnonzero(game.mask(state)) if game.actions[at] != STOP]


def successors(game: LoopGame, path: GamePath) -> Iterator[GamePath]:
    """The path extended by each legal action."""
    for action in legal(game, path.state):
        yield GamePath(game.apply(path.state, action), (*path.actions, action))


def distinct(paths: Iterable[GamePath]) -> list[GamePath]:
    """The first path to each state."""
    found: dict[GameState, GamePath] = {}
    for path in paths:
        found.setdefault(path.state, path)
    return list(found.values())


def play(game: LoopGame, actions: Iterable[int]) -> GamePath:
    """The path of these actions from the start, skipping illegal ones."""
    path = GamePath(game.start())
    for action in actions:
        if not path.state.stopped and game.mask(path.state)[action]:
            path = GamePath(game.apply(path.state, action), (*path.actions, action))
    return path


def random_walk(context: TreeContext, length: int) -> list[GamePath]:
    """The paths after each of `length` random actions; fewer if no action is legal."""
    path, walk = context.start(), []
    for _ in range(length):
        able = legal(context.game, path.state)
        if not able:
            break
        action = able[int(context.rng.integers(len(able)))]
        path = GamePath(context.game.apply(path.state, action), (*path.actions, action))
        walk.append(path)
    return walk
