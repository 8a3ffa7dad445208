"""Beam searches: of all states a layer leads to, those with the best measured schedules go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain

from skipjack.learn.loops import GameState
from skipjack.learn.tree.paths import (
    Asking,
    GamePath,
    TreeContext,
    TreeSearch,
    distinct,
    successors,
)
from skipjack.solvers.cpu.nest import Schedule

Foreseen = Generator[Sequence[GamePath], list[float], list[float]]


def beam(width: int = 4, lookahead: int = 1) -> TreeSearch:
    """Layer by layer: the successors of a whole layer are ranked together, and `width` go on.

    A successor is worth the fastest schedule that is seen from it with `lookahead - 1` further
    actions. Width counts schedules: states that differ in the cursor alone share a place, or else
    a fast schedule would fill the beam with its own cursors. Slower layers go on as well, so that a
    dip in speed is crossed.
    """

    def search(context: TreeContext) -> Asking:
        layer = [context.start()]
        yield layer
        expanded: set[GameState] = set()
        for left in range(context.actions, 0, -1):
            expanded |= {path.state for path in layer}
            children = _children(context, layer, expanded)
            if not children:
                return
            values = yield from _foresee(context, children, min(lookahead, left) - 1)
            layer = list(chain(*_fastest(context, children, values, width)))

    return search


def depth_first_beam(width: int = 4, lookahead: int = 1) -> TreeSearch:
    """Depth first: from a state on to its best successor, and back for the next best, `width` each.

    Successors are worth what they are worth to `beam`.
    """

    def search(context: TreeContext) -> Asking:
        yield [context.start()]
        reached: dict[GameState, int] = {}
        yield from descend(context, context.start(), context.actions, reached)

    def descend(
        context: TreeContext, path: GamePath, left: int, reached: dict[GameState, int]
    ) -> Asking:
        """`reached` has the most actions that were left in the states that were descended from."""
        if left <= reached.get(path.state, 0):
            return
        reached[path.state] = left
        children = _children(context, [path], {path.state})
        if not children:
            return
        values = yield from _foresee(context, children, min(lookahead, left) - 1)
        for place in _fastest(context, children, values, width):
            for child in place:
                yield from descend(context, child, left - 1, reached)

    return search


def _children(
    context: TreeContext, layer: Iterable[GamePath], without: set[GameState]
) -> list[GamePath]:
    found = distinct(path for each in layer for path in successors(context.game, each))
    return [path for path in found if path.state not in without]


def _foresee(context: TreeContext, paths: Sequence[GamePath], further: int) -> Foreseen:
    """The seconds of the best that each path leads to with so many further actions."""
    values = yield paths
    if further < 1:
        return values
    below = [list(successors(context.game, path)) for path in paths]
    flat = distinct(chain(*below))
    if not flat:
        return values
    seen = yield from _foresee(context, flat, further - 1)
    of_state = {path.state: value for path, value in zip(flat, seen, strict=True)}
    return [
        min([value, *(of_state[child.state] for child in children)])
        for value, children in zip(values, below, strict=True)
    ]


def _fastest(
    context: TreeContext, paths: Sequence[GamePath], values: Sequence[float], width: int
) -> list[list[GamePath]]:
    """The paths to the `width` schedules that are worth most, those to one schedule together."""
    places: dict[Schedule, list[GamePath]] = {}
    worth: dict[Schedule, float] = {}
    for path, value in zip(paths, values, strict=True):
        schedule = path.state.schedule
        places.setdefault(schedule, []).append(path)
        worth[schedule] = min(value, worth.get(schedule, value))
    # Chance and nothing else decides between equals.
    ties = dict(zip(places, context.rng.permutation(len(places)), strict=True))
    ranked = sorted(places, key=lambda schedule: (worth[schedule], ties[schedule]))
    return [places[schedule] for schedule in ranked[:width]]
