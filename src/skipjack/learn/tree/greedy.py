"""Greedy: always towards the best state within sight."""

from __future__ import annotations

from skipjack.learn.tree.paths import (
    Asking,
    GamePath,
    TreeContext,
    TreeSearch,
    distinct,
    successors,
)


def greedy(lookahead: int = 1) -> TreeSearch:
    """Looks so many actions ahead, takes the first action towards the best state, and looks again.

    It never makes for a slower schedule. It does make for one that is as fast, in a state where it
    was not yet: moving the cursor changes no time, and without that it would end at the first loop.
    """

    def search(context: TreeContext) -> Asking:
        here = context.start()
        (here_s,) = yield [here]
        visited = {here.state}
        for left in range(context.actions, 0, -1):
            seen, layer = {*visited, here.state}, [here]
            found: dict[GamePath, float] = {}
            # Each layer is asked for before the next is worked out: the budget may end at it.
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
