"""How a policy plays: one game greedily, or many games, of which the best are proposed.

Nothing is measured here. `greedy` and `proposals` are what the network plays on its own; `planned`
puts its games in the order of the cost model. `best_schedules` also considers the analytic order:
searchers use it, and tuning without any time to measure.
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
from skipjack.learn.policy.file import Policy
from skipjack.learn.policy.network import log_probabilities
from skipjack.solvers.cpu.nest import Schedule

MOST_ACTIONS = {Preset.FULL: 64, Preset.LOOPTUNE: 10}
"""Of one game; the preset looptune has no action that ends it."""
_WIDTH = 8
"""States that a beam keeps at least; it keeps as many as are needed for what is asked for."""
_CONSIDERED = 32
"""Games among which one is chosen."""
_LIKELY, _FAST, _CURSORS = 8, 24, 2
"""States of looptune that are looked at further: the likeliest, and those that are estimated to be
fastest, but of each schedule only so many, with the cursor at different places."""
ANALYTIC = 40
"""Proposals of the analytic order that are considered."""
_LATER, _OWN = 0.035, 0.17
"""Logarithms of times: for each doubling of a place in the analytic order; for not being in it."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """What a policy made of a nest."""

    actions: tuple[int, ...]
    state: GameState
    schedule: Schedule
    """What is built of it."""
    log_probability: float
    """Of the actions under the policy; of several ways to one schedule, of all of them."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A way that the beam follows."""

    state: GameState
    actions: tuple[int, ...]
    log_probability: float


def greedy(policy: Policy, game: LoopGame, actions: int | None = None) -> PlayedGame:
    """The game in which every action is the likeliest, `actions` of them at most."""
    line = _Line(game.start(), (), 0.0)
    most = MOST_ACTIONS[game.preset] if actions is None else actions
    ends = game.preset is Preset.FULL
    seen = {line.state}
    while len(line.actions) < most and not line.state.stopped:
        (chances,) = _chances(policy, game, [line])
        order = [int(at) for at in np.argsort(-chances, kind="stable") if np.isfinite(chances[at])]
        nexts = (_after(game, line, action, float(chances[action])) for action in order)
        # A game that an action ends need not go in circles: it would never end.
        after = next((each for each in nexts if not (ends and each.state in seen)), None)
        if after is None:
            break
        line = after
        seen.add(line.state)
    return _played(game, line)


def proposals(
    policy: Policy, game: LoopGame, count: int, actions: int | None = None
) -> list[PlayedGame]:
    """Up to `count` games with distinct schedules, the likeliest first.

    The first is what `greedy` plays. The others are found by a beam over the probabilities of
    actions; ways that meet in one state become one. Where too few games end, others are as they
    stood when the beam left them.
    """
    first = greedy(policy, game, actions)
    if count <= 1:
        return [first][: max(count, 0)]
    most = MOST_ACTIONS[game.preset] if actions is None else actions
    found = _Found(game)
    width = max(_WIDTH, count if game.preset is Preset.FULL else count // most)
    layers = [[_Line(game.start(), (), 0.0)]]
    seen = {layers[0][0].state}
    while len(layers) <= most:
        lines = _layer(policy, game, layers[-1], seen, width, found)
        if not lines or found.worst(count) > lines[0].log_probability:
            break
        layers.append(lines)
    distinct = {each.schedule: each for each in (first, *found.best())}
    # Games that were not ended go on no further: the longest come first.
    for line in (line for layer in reversed(layers) for line in layer):
        if len(distinct) >= count:
            break
        played = _played(game, line)
        distinct.setdefault(played.schedule, played)
    return list(distinct.values())[:count]


def planned(
    policy: Policy, game: LoopGame, count: int = 1, actions: int | None = None
) -> list[PlayedGame]:
    """Up to `count` games, best first: several are played, and the cost model puts them in order.

    The policy knows what good schedules look like, the model which of several similar ones is the
    fastest: together they are better than either alone. In the preset looptune, where every state
    is a schedule, the model also says which games go on.
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
    """Games of distinct schedules with what they are estimated to take.

    A beam follows the states that are likeliest, and those that are estimated to be fastest.
    """
    lines = [_Line(game.start(), (), 0.0)]
    first = _played(game, lines[0])
    found = {first.schedule: first}
    costs = dict(zip(found, _estimates(game, [first]), strict=True))
    seen = {first.state}
    for _ in range(actions):
        lines = _next_lines(policy, game, lines, seen)
        if not lines:
            break
        played = [_played(game, line) for line in lines]
        new = {each.schedule: each for each in reversed(played) if each.schedule not in found}
        found |= new
        costs |= zip(new, _estimates(game, list(new.values())), strict=True)
        at_cursors: dict[Schedule, int] = {}
        fastest = []
        for number in sorted(range(len(lines)), key=lambda at: costs[played[at].schedule]):
            schedule = played[number].schedule
            at_cursors[schedule] = at_cursors.get(schedule, 0) + 1
            if at_cursors[schedule] <= _CURSORS:
                fastest.append(lines[number])
        lines = list(dict.fromkeys([*lines[:_LIKELY], *fastest[:_FAST]]))
    return {game_: costs[schedule] for schedule, game_ in found.items()}


def _next_lines(
    policy: Policy, game: LoopGame, lines: Sequence[_Line], seen: set[GameState]
) -> list[_Line]:
    """All states one action further that were not seen, the likeliest first."""
    chances = _chances(policy, game, lines)
    reached: dict[GameState, _Line] = {}
    for line, of_actions in zip(lines, chances, strict=True):
        for action in np.flatnonzero(np.isfinite(of_actions)).tolist():
            after = _after(game, line, action, float(of_actions[action]))
            known = reached.get(after.state)
            if after.state not in seen and (
                known is None or known.log_probability < after.log_probability
            ):
                reached[after.state] = after
    seen |= reached.keys()
    return sorted(reached.values(), key=lambda line: -line.log_probability)


def _estimates(game: LoopGame, played: Sequence[PlayedGame]) -> list[float]:
    """Logarithms of what the cost model says that games' schedules take."""
    return shipped_model(game.preset).log_seconds_in(game, [each.schedule for each in played])


def best_schedules(
    policy: Policy, game: LoopGame, analytic: Sequence[Schedule], count: int = 1
) -> list[Schedule]:
    """Up to `count` schedules, best first: what a policy plays, and the first analytic proposals.

    The cost model puts them in order. A later place in the analytic order counts a little against a
    schedule, and so does not being in it: the model must expect a gain that outweighs this. On
    tables of problems that the model was not fitted to, the first choice is then hardly ever slower
    than the first analytic proposal.
    """
    played = [each.schedule for each in proposals(policy, game, max(_CONSIDERED, count))]
    handicaps = dict.fromkeys(played, _OWN)
    handicaps |= {one: _LATER * log2(1 + at) for at, one in enumerate(analytic)}
    found = list(handicaps)
    costs = dict(zip(found, shipped_model().log_seconds_in(game, found), strict=True))
    return sorted(found, key=lambda one: costs[one] + handicaps[one])[: max(count, 0)]


class _Found:
    """Schedules by their probability."""

    def __init__(self, game: LoopGame) -> None:
        self._game = game
        self._games: dict[Schedule, PlayedGame] = {}

    def add(self, line: _Line) -> None:
        played = _played(self._game, line)
        known = self._games.get(played.schedule)
        if known is not None:
            likelier = max(known, played, key=lambda each: each.log_probability)
            together = float(np.logaddexp(known.log_probability, played.log_probability))
            played = PlayedGame(likelier.actions, likelier.state, likelier.schedule, together)
        self._games[played.schedule] = played

    def best(self) -> list[PlayedGame]:
        return sorted(self._games.values(), key=lambda each: -each.log_probability)

    def worst(self, count: int) -> float:
        """The probability of the last of the `count` best; minus infinity while there are fewer."""
        if len(self._games) < count:
            return -np.inf
        return heapq.nlargest(count, (x.log_probability for x in self._games.values()))[-1]


def _layer(
    policy: Policy,
    game: LoopGame,
    lines: Sequence[_Line],
    seen: set[GameState],
    width: int,
    found: _Found,
) -> list[_Line]:
    """One action further on all lines; games that have ended are found."""
    chances = _chances(policy, game, lines)
    totals = chances + np.array([[line.log_probability] for line in lines])
    order = np.argsort(-totals, axis=None, kind="stable")
    reached: dict[GameState, _Line] = {}
    for flat in order.tolist():
        at, action = divmod(flat, chances.shape[1])
        if not np.isfinite(totals[at, action]) or len(reached) >= width:
            break
        line = _after(game, lines[at], action, float(chances[at, action]))
        if line.state.stopped:
            found.add(line)
        elif line.state in reached:
            met = reached[line.state]
            total = float(np.logaddexp(met.log_probability, line.log_probability))
            reached[line.state] = _Line(met.state, met.actions, total)
        elif line.state not in seen:
            reached[line.state] = line
    seen |= reached.keys()
    return sorted(reached.values(), key=lambda line: -line.log_probability)


def _chances(policy: Policy, game: LoopGame, lines: Sequence[_Line]) -> NDArray[np.float64]:
    """The logarithms of the probabilities of all actions, for each line."""
    views: list[PolicyView] = [observe(game, line.state, "policy", line.actions) for line in lines]
    masks = np.stack([game.mask(line.state) for line in lines])
    logits, _ = policy.network.forward_many(
        np.stack([view["loops"] for view in views]),
        np.stack([view["rows"] for view in views]).astype(np.bool_),
        np.array([line.state.cursor for line in lines]),
        np.stack([view["globals"] for view in views]),
    )
    return log_probabilities(logits, masks)


def _after(game: LoopGame, line: _Line, action: int, chance: float) -> _Line:
    state = game.apply(line.state, action)
    return _Line(state, (*line.actions, action), line.log_probability + chance)


def _played(game: LoopGame, line: _Line) -> PlayedGame:
    return PlayedGame(line.actions, line.state, game.built(line.state), line.log_probability)
