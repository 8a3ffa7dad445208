"""Searches that a policy may guide: Monte Carlo tree search, and the policy's own proposals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.loops import LoopGame, PolicyView, observe
from skipjack.learn.policy import Policy, log_probabilities, planned
from skipjack.learn.tree.paths import STOP, GamePath, Prior, RunningSearch, TreeContext, TreeSearch

# Monte Carlo tree search, which a policy may guide.

_LEAST = 1e-6


@dataclass(slots=True)
class _Edge:
    action: int
    prior: float
    visits: int = 0
    fastest_s: float = math.inf
    closed: bool = False
    """Whether the whole subtree was explored."""


@dataclass(slots=True)
class _Node:
    edges: list[_Edge]
    visits: int = 0

    @property
    def open(self) -> list[_Edge]:
        return [edge for edge in self.edges if not edge.closed]


def uniform(game: LoopGame, path: GamePath) -> NDArray[np.floating]:
    """A prior with equal weights for all actions."""
    return np.ones(len(game.actions))


def mcts(prior: Prior | None = None, exploration: float = 0.5) -> TreeSearch:
    """Descend the tree by PUCT, add a state, and play on from there by the prior.

    The added state and the one where the play ends are measured. The value of a branch is its
    fastest schedule and not the mean, because the goal is the best one. States that are reached by
    several paths are one node, and fully explored subtrees are not entered again.
    """
    guide = prior or uniform

    def search(context: TreeContext) -> RunningSearch:
        game = context.game
        start = context.start()
        (start_s,) = yield [start]
        # A state with fewer actions left is another node, because less can be reached from it.
        tree = {(start.state, 0): _node(game, start, guide)}
        root = tree[start.state, 0]
        while root.open:
            path, passed, node = start, list[tuple[_Node, _Edge]](), root
            while node.open:
                edge = _choose(node, start_s, exploration)
                passed.append((node, edge))
                path = _step(game, path, edge.action)
                place = path.state, len(path.actions)
                if place in tree:
                    node = tree[place]
                    continue
                ends = len(path.actions) == context.actions
                node = tree[place] = _Node([]) if ends else _node(game, path, guide)
                break
            ended = _play_on(context, path, guide)
            seconds = yield [path] if ended == path else [path, ended]
            below = node
            for node, edge in reversed(passed):
                edge.closed = not below.open
                edge.visits += 1
                edge.fastest_s = min(edge.fastest_s, *seconds)
                node.visits += 1
                below = node

    return search


def _node(game: LoopGame, path: GamePath, guide: Prior) -> _Node:
    weights = _weights(game, path, guide)
    weights[[name == STOP for name in game.actions]] = 0.0
    return _Node([_Edge(int(at), float(weights[at])) for at in np.flatnonzero(weights)])


def _weights(game: LoopGame, path: GamePath, guide: Prior) -> NDArray[np.floating]:
    """The normalised prior of legal actions; none is so small that it is never tried."""
    weights = np.where(game.mask(path.state), guide(game, path) + _LEAST, 0.0)
    total = weights.sum()
    return weights / total if total else weights


def _choose(node: _Node, start_s: float, exploration: float) -> _Edge:
    """Choose by PUCT with speeds relative to the fastest seen from this node."""
    fastest_s = min(edge.fastest_s for edge in node.open)
    spread = exploration * math.sqrt(node.visits + 1)

    def score(edge: _Edge) -> float:
        known_s = edge.fastest_s if edge.visits else start_s
        worth = fastest_s / known_s if math.isfinite(fastest_s) else 0.0
        return min(1.0, worth) + spread * edge.prior / (1 + edge.visits)

    return max(node.open, key=score)


def _step(game: LoopGame, path: GamePath, action: int) -> GamePath:
    return GamePath(game.apply(path.state, action), (*path.actions, action))


def _play_on(context: TreeContext, path: GamePath, guide: Prior) -> GamePath:
    while len(path.actions) < context.actions:
        weights = _weights(context.game, path, guide)
        if not weights.any():
            break
        action = int(context.rng.choice(len(weights), p=weights))
        if context.game.actions[action] == STOP:
            break
        path = _step(context.game, path, action)
    return path


# Policies in searches: as the prior of a tree search, and their own proposals.

_ENDLESS = 64
"""The number of proposals without a limit of measurements."""


def policy_prior(policy: Policy) -> Prior:
    """A policy's probabilities of actions, as a prior."""

    def prior(game: LoopGame, path: GamePath) -> NDArray[np.floating]:
        view: PolicyView = observe(game, path.state, "policy", path.actions)
        rows = view["rows"].astype(np.bool_)
        logits, _ = policy.network.forward(view["loops"], rows, path.state.cursor, view["globals"])
        return np.exp(log_probabilities(logits, game.mask(path.state)))

    return prior


def policy_proposals(policy: Policy) -> TreeSearch:
    """A policy's proposals, best first; measured times have no influence."""

    def search(context: TreeContext) -> RunningSearch:
        yield [context.start()]
        most = context.measurements
        played = planned(policy, context.game, _ENDLESS if most is None else most, context.actions)
        yield [GamePath(each.state, each.actions) for each in played]

    return search
