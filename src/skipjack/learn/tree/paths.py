"""Paths through the game, and how a search asks what they are worth.

A search is a generator: it yields paths to measure and is sent their seconds, infinite where a
schedule cannot be built. It counts nothing: `running` keeps the budget, answers what was measured
before, and ends the generator when the budget is spent::

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
"""The action that ends an episode. It changes no schedule, so searches leave it out."""


@dataclass(frozen=True, slots=True)
class GamePath:
    """A state of the game, and the actions that lead to it from the start."""

    state: GameState
    actions: tuple[int, ...] = ()


Prior = Callable[[LoopGame, GamePath], NDArray[np.floating]]
"""How promising each action is: weights that are not negative; illegal ones are ignored."""
Asking = Generator[Sequence[GamePath], list[float], None]
"""A running search."""


@dataclass(frozen=True, slots=True)
class TreeContext:
    """What a search may know before it measures."""

    game: LoopGame
    rng: np.random.Generator
    actions: int
    """The most actions of a path."""
    measurements: int | None
    """The most distinct schedules that will be measured; None without a limit."""

    def start(self) -> GamePath:
        """The path of no action."""
        return GamePath(self.game.start())


TreeSearch = Callable[[TreeContext], Asking]


def legal(game: LoopGame, state: GameState) -> list[int]:
    """The legal actions but `STOP`."""
    if state.stopped:
        return []
    return [int(at) for at in np.flatnonzero(game.mask(state)) if game.actions[at] != STOP]


def successors(game: LoopGame, path: GamePath) -> Iterator[GamePath]:
    """What single actions make of a path."""
    for action in legal(game, path.state):
        yield GamePath(game.apply(path.state, action), (*path.actions, action))


def distinct(paths: Iterable[GamePath]) -> list[GamePath]:
    """The first path to each state."""
    found: dict[GameState, GamePath] = {}
    for path in paths:
        found.setdefault(path.state, path)
    return list(found.values())


def play(game: LoopGame, actions: Iterable[int]) -> GamePath:
    """The path of these actions from the start, without those that are illegal where they stand."""
    path = GamePath(game.start())
    for action in actions:
        if not path.state.stopped and game.mask(path.state)[action]:
            path = GamePath(game.apply(path.state, action), (*path.actions, action))
    return path


def random_walk(context: TreeContext, length: int) -> list[GamePath]:
    """The path after each of so many random actions; fewer where none is legal any more."""
    path, walk = context.start(), []
    for _ in range(length):
        able = legal(context.game, path.state)
        if not able:
            break
        action = able[int(context.rng.integers(len(able)))]
        path = GamePath(context.game.apply(path.state, action), (*path.actions, action))
        walk.append(path)
    return walk
