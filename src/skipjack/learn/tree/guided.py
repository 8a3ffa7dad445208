"""Policies in searches: as the prior of a tree search, and on their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.loops import LoopGame, PolicyView, observe
from skipjack.learn.policy import Policy, log_probabilities, planned
from skipjack.learn.tree.paths import Asking, GamePath, Prior, TreeContext, TreeSearch

_ENDLESS = 64
"""Schedules that a policy proposes where there is no limit."""


def policy_prior(policy: Policy) -> Prior:
    """The probabilities that a policy gives to actions."""

    def prior(game: LoopGame, path: GamePath) -> NDArray[np.floating]:
        view: PolicyView = observe(game, path.state, "policy", path.actions)
        rows = view["rows"].astype(np.bool_)
        logits, _ = policy.network.forward(view["loops"], rows, path.state.cursor, view["globals"])
        return np.exp(log_probabilities(logits, game.mask(path.state)))

    return prior


def policy_proposals(policy: Policy) -> TreeSearch:
    """What a policy proposes, best first; measured times do not change it."""

    def search(context: TreeContext) -> Asking:
        yield [context.start()]
        most = context.measurements
        played = planned(policy, context.game, _ENDLESS if most is None else most, context.actions)
        yield [GamePath(each.state, each.actions) for each in played]

    return search
