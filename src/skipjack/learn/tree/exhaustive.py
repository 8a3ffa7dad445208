"""Exhaustive: every state within so many actions."""

from __future__ import annotations

from skipjack.learn.loops import GameState
from skipjack.learn.tree.paths import Asking, TreeContext, distinct, successors


def exhaustive(context: TreeContext) -> Asking:
    """Layer by layer; what it finds is the optimum within the actions, if the budget lasts."""
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
