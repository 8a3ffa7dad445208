"""Games that a policy plays: one greedily, or many, of which the best are proposed.

Nothing is measured here. `greedy` and `proposals` use only the network; `planned` orders its games
by the cost model. `best_schedules`, which searchers use, also considers the proposals of the
analytic model.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.costs import shipped_model
from skipjack.learn.loops import GameState, LoopGame, PolicyView, Preset, observe
from skipjack.learn.policy.network import Policy, log_probabilities
from skipjack.solvers.cpu.nest import Schedule

MOST_ACTIONS = {Preset.FULL: 64, Preset.LOOPTUNE: 10}
"""The most actions of a game; in the preset looptune no action ends it."""
_WIDTH = 8
"""The least width of a beam; it is wider if more games are requested."""
_CONSIDERED = 32
"""The number of games that the cost model orders."""
_LIKELY, _FAST, _CURSORS = 8, 24, 2
"""The beam in looptune: the likeliest states, and those that are estimated to be fastest, of which
only a few have the same schedule with different cursors."""
ANALYTIC = 40
"""The number of proposals of the analytic model that are considered."""
_LATER, _OWN = 0.035, 0.17
"""Handicaps as logarithms of times: for each doubling of the rank in the analytic order, and for
schedules that are not in it."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game that a policy played."""

    actions: tuple[int, ...]
    state: GameState
    schedule: Schedule
    """The schedule that is built."""
    log_probability: float
    """Log probability of the actions; of several paths to one schedule, of all together."""


@dataclass(frozen=True, slots=True)
class _BeamPath:
    """A path that the beam follows."""

    state: GameState
    actions: tuple[int, ...]
    log_probability: float


def greedy(policy: Policy, game: LoopGame, actions: int | None = None) -> PlayedGame:
    """The game in which every action is the likeliest, with at most `actions` actions."""
    path = _BeamPath(game.start(), (), 0.0)
    most = MOST_ACTIONS[game.preset] if actions is None else actions
    ends = game.preset is Preset.FULL
    seen = {path.state}
    while len(path.actions) < most and not path.state.stopped:
        (chances,) = _chances(policy, game, [path])
        order = [int(at) for at in np.argsort(-chances, kind="stable") if np.isfinite(chances[at])]
        nexts = (_after(game, path, action, float(chances[action])) for action in order)
        # Skip known states if the game has the action stop; otherwise it might never end.
        after = next((each for each in nexts if not (ends and each.state in seen)), None)
        if after is None:
            break
        path = after
        seen.add(path.state)
    return _played(game, path)


def proposals(
    policy: Policy, game: LoopGame, count: int, actions: int | None = None
) -> list[PlayedGame]:
    """Up to `count` games with distinct schedules, the likeliest first.

    The first is the game of `greedy`. The others are found by a beam search over the probabilities
    of actions, in which paths to one state are merged. If too few games end, unfinished ones are
    added.
    """
    first = greedy(policy, game, actions)
    if count <= 1:
        return [first][: max(count, 0)]
    most = MOST_ACTIONS[game.preset] if actions is None else actions
    found = _Found(game)
    width = max(_WIDTH, count if game.preset is Preset.FULL else count // most)
    layers = [[_BeamPath(game.start(), (), 0.0)]]
    seen = {layers[0][0].state}
    while len(layers) <= most:
        paths = _layer(policy, game, layers[-1], seen, width, found)
        if not paths or found.worst(count) > paths[0].log_probability:
            break
        layers.append(paths)
    distinct = {each.schedule: each for each in (first, *found.best())}
    # Add unfinished games, the longest first.
    for path in (path for layer in reversed(layers) for path in layer):
        if len(distinct) >= count:
            break
        played = _played(game, path)
        distinct.setdefault(played.schedule, played)
    return list(distinct.values())[:count]


def planned(
    policy: Policy, game: LoopGame, count: int = 1, actions: int | None = None
) -> list[PlayedGame]:
    """Up to `count` games, best first by the cost model.

    The policy finds good schedules, and the model finds the fastest of similar ones: together they
    are better than either alone. In the preset looptune, where every state is a schedule, the model
    also guides the beam search.
    """
    if game.preset is Preset.LOOPTUNE:
        costs = _looked_ahead(
            policy, game, MOST_ACTIONS[game.preset] if actions is None else actions
        )
    else:
        played = proposals(policy, game, max(_CONSIDERED, count), actions)
        costs = dict(zip(played, _estimates(game, played), strict=True))
    return sorted(costs, key=costs.__getitem__)[: max(count, 0)]


def _looked_ahead(policy: Policy, game: LoopGame, actions: int) -> dict[PlayedGame, float]:
    """Games of distinct schedules with their estimated times.

    A beam search follows the likeliest states and those that are estimated to be fastest.
    """
    paths = [_BeamPath(game.start(), (), 0.0)]
    first = _played(game, paths[0])
    found = {first.schedule: first}
    costs = dict(zip(found, _estimates(game, [first]), strict=True))
    seen = {first.state}
    for _ in range(actions):
        paths = _next_paths(policy, game, paths, seen)
        if not paths:
            break
        played = [_played(game, path) for path in paths]
        new = {each.schedule: each for each in reversed(played) if each.schedule not in found}
        found |= new
        costs |= zip(new, _estimates(game, list(new.values())), strict=True)
        at_cursors: dict[Schedule, int] = {}
        fastest = []
        for number in sorted(range(len(paths)), key=lambda at: costs[played[at].schedule]):
            schedule = played[number].schedule
            at_cursors[schedule] = at_cursors.get(schedule, 0) + 1
            if at_cursors[schedule] <= _CURSORS:
                fastest.append(paths[number])
        paths = list(dict.fromkeys([*paths[:_LIKELY], *fastest[:_FAST]]))
    return {game_: costs[schedule] for schedule, game_ in found.items()}


def _next_paths(
    policy: Policy, game: LoopGame, paths: Sequence[_BeamPath], seen: set[GameState]
) -> list[_BeamPath]:
    """All unseen states one action further, the likeliest first."""
    chances = _chances(policy, game, paths)
    reached: dict[GameState, _BeamPath] = {}
    for path, of_actions in zip(paths, chances, strict=True):
        for action in np.flatnonzero(np.isfinite(of_actions)).tolist():
            after = _after(game, path, action, float(of_actions[action]))
            known = reached.get(after.state)
            if after.state not in seen and (
                known is None or known.log_probability < after.log_probability
            ):
                reached[after.state] = after
    seen |= reached.keys()
    return sorted(reached.values(), key=lambda path: -path.log_probability)


def _estimates(game: LoopGame, played: Sequence[PlayedGame]) -> list[float]:
    """The cost model's log seconds of games' schedules."""
    return shipped_model(game.preset).log_seconds_in(game, [each.schedule for each in played])


def best_schedules(
    policy: Policy, game: LoopGame, analytic: Sequence[Schedule], count: int = 1
) -> list[Schedule]:
    """Up to `count` schedules, best first: of the policy's games and of analytic proposals.

    The cost model orders them. A low rank in the analytic order is a handicap, and so is not being
    in it: the gain that the model expects must outweigh it. On tables of problems to which the
    model was not fitted, the first choice is then hardly ever slower than the first analytic
    proposal.
    """
    played = [each.schedule for each in proposals(policy, game, max(_CONSIDERED, count))]
    handicaps = dict.fromkeys(played, _OWN)
    handicaps |= {one: _LATER * log2(1 + at) for at, one in enumerate(analytic)}
    found = list(handicaps)
    costs = dict(zip(found, shipped_model().log_seconds_in(game, found), strict=True))
    return sorted(found, key=lambda one: costs[one] + handicaps[one])[: max(count, 0)]


class _Found:
    """Finished games by schedule, with total probabilities."""

    def __init__(self, game: LoopGame) -> None:
        self._game = game
        self._games: dict[Schedule, PlayedGame] = {}

    def add(self, path: _BeamPath) -> None:
        played = _played(self._game, path)
        known = self._games.get(played.schedule)
        if known is not None:
            likelier = max(known, played, key=lambda each: each.log_probability)
            together = float(np.logaddexp(known.log_probability, played.log_probability))
            played = PlayedGame(likelier.actions, likelier.state, likelier.schedule, together)
        self._games[played.schedule] = played

    def best(self) -> list[PlayedGame]:
        return sorted(self._games.values(), key=lambda each: -each.log_probability)

    def worst(self, count: int) -> float:
        """Log probability of the `count`-th best game; minus infinity if there are fewer."""
        if len(self._games) < count:
            return -np.inf
        return heapq.nlargest(count, (x.log_probability for x in self._games.values()))[-1]


def _layer(
    policy: Policy,
    game: LoopGame,
    paths: Sequence[_BeamPath],
    seen: set[GameState],
    width: int,
    found: _Found,
) -> list[_BeamPath]:
    """Extend all paths by one action; games that have ended are added to `found`."""
    chances = _chances(policy, game, paths)
    totals = chances + np.array([[path.log_probability] for path in paths])
    order = np.argsort(-totals, axis=None, kind="stable")
    reached: dict[GameState, _BeamPath] = {}
    for flat in order.tolist():
        at, action = divmod(flat, chances.shape[1])
        if not np.isfinite(totals[at, action]) or len(reached) >= width:
            break
        path = _after(game, paths[at], action, float(chances[at, action]))
        if path.state.stopped:
            found.add(path)
        elif path.state in reached:
            met = reached[path.state]
            total = float(np.logaddexp(met.log_probability, path.log_probability))
            reached[path.state] = _BeamPath(met.state, met.actions, total)
        elif path.state not in seen:
            reached[path.state] = path
    seen |= reached.keys()
    return sorted(reached.values(), key=lambda path: -path.log_probability)


def _chances(policy: Policy, game: LoopGame, paths: Sequence[_BeamPath]) -> NDArray[np.float64]:
    """Log probabilities of all actions, for each path."""
    views: list[PolicyView] = [observe(game, path.state, "policy", path.actions) for path in paths]
    masks = np.stack([game.mask(path.state) for path in paths])
    logits, _ = policy.network.forward_many(
        np.stack([view["loops"] for view in views]),
        np.stack([view["rows"] for view in views]).astype(np.bool_),
        np.array([path.state.cursor for path in paths]),
        np.stack([view["globals"] for view in views]),
    )
    return log_probabilities(logits, masks)


def _after(game: LoopGame, path: _BeamPath, action: int, chance: float) -> _BeamPath:
    state = game.apply(path.state, action)
    return _BeamPath(state, (*path.actions, action), path.log_probability + chance)


def _played(game: LoopGame, path: _BeamPath) -> PlayedGame:
    return PlayedGame(path.actions, path.state, game.built(path.state), path.log_probability)
