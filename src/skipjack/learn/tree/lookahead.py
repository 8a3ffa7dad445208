"""Searches that look ahead: exhaustive, greedy and beam search; and a fixed recipe."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain

from skipjack.learn.loops import GameState, LoopGame, Preset
from skipjack.learn.tree.paths import (
    GamePath,
    RunningSearch,
    TreeContext,
    TreeSearch,
    distinct,
    play,
    successors,
)
from skipjack.solvers.cpu.nest import Schedule

# Beam searches, which follow the states with the fastest measured schedules.

LookaheadValues = Generator[Sequence[GamePath], list[float], list[float]]


def beam(width: int = 4, lookahead: int = 1) -> TreeSearch:
    """Breadth first: all successors of a layer are ranked together, and the best `width` stay.

    The value of a successor is the fastest schedule that it leads to with `lookahead - 1` further
    actions. The width counts schedules: states that differ only in the cursor count as one, so that
    they do not fill the beam. The search continues even if a layer is slower than the last, so that
    it can cross a local optimum.
    """

    def search(context: TreeContext) -> RunningSearch:
        layer = [context.start()]
        yield layer
        expanded: set[GameState] = set()
        for left in range(context.actions, 0, -1):
            expanded |= {path.state for path in layer}
            children = _children(context, layer, expanded)
            if not children:
                return
            values = yield from _look_ahead(context, children, min(lookahead, left) - 1)
            layer = list(chain(*_fastest(context, children, values, width)))

    return search


def depth_first_beam(width: int = 4, lookahead: int = 1) -> TreeSearch:
    """Depth first: follow the best successor of each state, then the next best, `width` each.

    Values of successors are those of `beam`.
    """

    def search(context: TreeContext) -> RunningSearch:
        yield [context.start()]
        reached: dict[GameState, int] = {}
        yield from descend(context, context.start(), context.actions, reached)

    def descend(
        context: TreeContext, path: GamePath, left: int, reached: dict[GameState, int]
    ) -> RunningSearch:
        """`reached` has the most actions that were left in each state that was expanded."""
        if left <= reached.get(path.state, 0):
            return
        reached[path.state] = left
        children = _children(context, [path], {path.state})
        if not children:
            return
        values = yield from _look_ahead(context, children, min(lookahead, left) - 1)
        for place in _fastest(context, children, values, width):
            for child in place:
                yield from descend(context, child, left - 1, reached)

    return search


def _children(
    context: TreeContext, layer: Iterable[GamePath], without: set[GameState]
) -> list[GamePath]:
    found = distinct(path for each in layer for path in successors(context.game, each))
    return [path for path in found if path.state not in without]


def _look_ahead(context: TreeContext, paths: Sequence[GamePath], further: int) -> LookaheadValues:
    """The fewest seconds that each path leads to with `further` actions."""
    values = yield paths
    if further < 1:
        return values
    below = [list(successors(context.game, path)) for path in paths]
    flat = distinct(chain(*below))
    if not flat:
        return values
    seen = yield from _look_ahead(context, flat, further - 1)
    of_state = {path.state: value for path, value in zip(flat, seen, strict=True)}
    return [
        min([value, *(of_state[child.state] for child in children)])
        for value, children in zip(values, below, strict=True)
    ]


def _fastest(
    context: TreeContext, paths: Sequence[GamePath], values: Sequence[float], width: int
) -> list[list[GamePath]]:
    """The paths to the best `width` schedules, grouped by schedule."""
    places: dict[Schedule, list[GamePath]] = {}
    worth: dict[Schedule, float] = {}
    for path, value in zip(paths, values, strict=True):
        schedule = path.state.schedule
        places.setdefault(schedule, []).append(path)
        worth[schedule] = min(value, worth.get(schedule, value))
    # Ties are broken at random.
    ties = dict(zip(places, context.rng.permutation(len(places)), strict=True))
    ranked = sorted(places, key=lambda schedule: (worth[schedule], ties[schedule]))
    return [places[schedule] for schedule in ranked[:width]]


# Greedy search: always towards the best state within its lookahead.


def greedy(lookahead: int = 1) -> TreeSearch:
    """Look ahead, take the first action towards the best state, and repeat.

    It never moves towards a slower schedule, but it may move towards an equally fast one in a new
    state: moving the cursor does not change the time, and otherwise it would end at the first loop.
    """

    def search(context: TreeContext) -> RunningSearch:
        here = context.start()
        (here_s,) = yield [here]
        visited = {here.state}
        for left in range(context.actions, 0, -1):
            seen, layer = {*visited, here.state}, [here]
            found: dict[GamePath, float] = {}
            # Request each layer before computing the next one: the budget may end.
            for _ in range(min(lookahead, left)):
                ahead = distinct(path for each in layer for path in successors(context.game, each))
                layer = [path for path in ahead if path.state not in seen]
                if not layer:
                    break
                seen |= {path.state for path in layer}
                found |= zip(layer, (yield layer), strict=True)
            if not found:
                return
            best_s, _, _, best = min(
                (value, len(path.actions), context.rng.random(), path)
                for path, value in found.items()
            )
            if best_s > here_s:
                return
            here = _first_step(context, here, best)
            here_s = {path.state: value for path, value in found.items()}[here.state]
            visited.add(here.state)

    return search


def _first_step(context: TreeContext, here: GamePath, towards: GamePath) -> GamePath:
    action = towards.actions[len(here.actions)]
    return GamePath(context.game.apply(here.state, action), (*here.actions, action))


# Exhaustive search: every state within the limit of actions.


def exhaustive(context: TreeContext) -> RunningSearch:
    """Breadth first; finds the optimum within the limit of actions if the budget suffices."""
    layer = [context.start()]
    seen: set[GameState] = {layer[0].state}
    yield layer
    for _ in range(context.actions):
        found = distinct(path for each in layer for path in successors(context.game, each))
        layer = [path for path in found if path.state not in seen]
        if not layer:
            return
        seen |= {path.state for path in layer}
        yield layer


# The recipe: a fixed sequence of actions for every nest, without measuring.

_MANY_REGISTERS = 32


def recipe_actions(game: LoopGame) -> tuple[str, ...]:
    """The names of the actions of the recipe.

    For a product, whose nest is m, k, n, they make the schedule that LoopTune's policy made for
    nearly all shapes: tiles of m and n outside, then k, then a tile that stays in registers. The
    size of that tile depends only on the machine's registers and the preset's factors. In other
    nests, illegal actions are skipped.
    """
    many = game.limits.registers >= _MANY_REGISTERS
    if game.preset is Preset.LOOPTUNE:
        # At most 16 columns are possible: one vector of 16 lanes, or two of 8.
        rows, columns = (16 if game.limits.lanes >= 16 else 4), 16
    else:
        rows, columns = (8 if many else 4), 2 * game.limits.lanes
    tile = (f"split_{rows}", "down", "swap_down", "down", f"split_{columns}", "swap_up", "swap_up")
    if game.preset is Preset.LOOPTUNE:
        return tile
    return (*tile, "down", "down", "down", "vectorize", "up", "unroll")


def recipe(context: TreeContext) -> RunningSearch:
    """Measure every state of the recipe."""
    game = context.game
    names = [name for name in recipe_actions(game) if name in game.actions]
    actions = play(game, map(game.number, names)).actions[: context.actions]
    paths = [play(game, actions[:length]) for length in range(len(actions) + 1)]
    yield list[GamePath](paths)
