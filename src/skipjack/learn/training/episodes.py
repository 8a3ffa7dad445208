"""Episodes: games that a policy plays, with its actions and rewards.

Several episodes are played together, as one batch for the network. The reward of an action is the
logarithm of the speed-up of its schedule over the previous one. This module needs no torch, because
worker processes use it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Problem
from skipjack.learn.loops import GameState, LoopGame, PolicyView, observe
from skipjack.learn.policy import PolicyNetwork, log_probabilities
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

FAILED = -3.0
"""The log speed-up of a schedule that cannot be built or computes wrong results."""
_ANCHORS = 4


class _Rates(Protocol):
    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]: ...


@dataclass(frozen=True, slots=True)
class Views:
    """The network's input for several states."""

    rows: NDArray[np.float32]
    """States x loops x features."""
    present: NDArray[np.bool_]
    """States x loops: whether a row is a loop and not padding."""
    cursor: NDArray[np.int64]
    machine: NDArray[np.float32]
    """States x features of the nest and the machine."""
    mask: NDArray[np.bool_]
    """States x actions: which are legal."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode. Arrays have an element for each action."""

    problem: int
    """The index of its problem."""
    views: Views
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    seconds: NDArray[np.float64]
    """Times of the schedules after each action; nan if not known or if it cannot be built."""
    schedule: str
    """The final schedule that is built."""
    speed_up: float
    """Its speed-up over the untuned nest, or over a proposed schedule if that has no time."""

    def __len__(self) -> int:
        return len(self.actions)


class Player:
    """Plays episodes of some problems."""

    def __init__(
        self,
        problems: Sequence[Problem],
        games: Sequence[LoopGame],
        rates: _Rates,
        steps: int,
    ) -> None:
        """`steps` is the largest number of actions in an episode."""
        self.problems, self.games, self.rates, self.steps = problems, games, rates, steps
        self._anchors: dict[int, float] = {}

    def play(
        self,
        network: PolicyNetwork,
        chosen: Sequence[int],
        rng: np.random.Generator,
        *,
        greedy: bool = False,
        explore: float = 0.0,
    ) -> list[Episode]:
        """Play one episode of each chosen problem.

        Actions are drawn by the network's probabilities, or are the best if `greedy`. `explore` is
        the share of actions that are drawn uniformly from all legal ones instead.
        """
        playing = [_EpisodeInProgress(number, self.games[number]) for number in chosen]
        for _ in range(self.steps):
            open_ones = [each for each in playing if not each.over]
            if not open_ones:
                break
            views = joined([each.look() for each in open_ones])
            most = int(views.present.sum(axis=1).max())  # other rows are padding in all states
            logits, _ = network.forward_many(
                views.rows[:, :most], views.present[:, :most], views.cursor, views.machine
            )
            chances = log_probabilities(logits, views.mask)
            for at, each in enumerate(open_ones):
                each.act(_choice(chances[at], rng, greedy, explore))
        return [self._scored(each) for each in playing if each.actions]

    def replay(self, number: int, actions: Sequence[int], rewards: NDArray[np.float64]) -> Episode:
        """Play an episode with known actions and rewards again, without using rates."""
        playing = _EpisodeInProgress(number, self.games[number])
        for action in actions:
            playing.look()
            playing.act(int(action))
        return Episode(
            problem=number,
            views=joined(playing.views),
            actions=np.array(actions, np.int64),
            rewards=rewards,
            seconds=np.full(len(actions), np.nan),
            schedule=playing.game.built(playing.states[-1]).text(),
            speed_up=float(np.exp(rewards.sum())),
        )

    def anchor(self, number: int) -> float:
        """The seconds to which speed-ups of a problem are relative."""
        if number not in self._anchors:
            game, problem = self.games[number], self.problems[number]
            (untuned,) = self.rates.seconds(problem, [game.built(game.start())])
            self._anchors[number] = untuned or self._proposed(problem, game)
        return self._anchors[number]

    def _proposed(self, problem: Problem, game: LoopGame) -> float:
        """Seconds of the first proposal that has a time; 1 if none has one."""
        limits = game.limits
        space = ScheduleSpace(game.nest, limits.lanes, limits.registers, threads=game.threads)
        proposed = [space.schedule(config) for config in space.promising(_ANCHORS)]
        return next((one for one in self.rates.seconds(problem, proposed) if one), 1.0)

    def _scored(self, playing: _EpisodeInProgress) -> Episode:
        number, game = playing.number, playing.game
        problem, anchor = self.problems[number], self.anchor(number)
        built = [game.built(state) for state in playing.states[1:]]
        rewards, seconds = np.zeros(len(built)), np.full(len(built), np.nan)
        before = 0.0
        for at, took in enumerate(self.rates.seconds(problem, built)):
            worth = log(anchor / took) if took else FAILED
            rewards[at], before = worth - before, worth
            seconds[at] = took or np.nan
        return Episode(
            problem=number,
            views=joined(playing.views),
            actions=np.array(playing.actions, np.int64),
            rewards=rewards,
            seconds=seconds,
            schedule=built[-1].text(),
            speed_up=float(np.exp(before)),
        )


class _EpisodeInProgress:
    """An episode in progress."""

    def __init__(self, number: int, game: LoopGame) -> None:
        self.number, self.game = number, game
        self.states: list[GameState] = [game.start()]
        self.views: list[Views] = []
        self.actions: list[int] = []

    @property
    def over(self) -> bool:
        return self.states[-1].stopped or not self.game.mask(self.states[-1]).any()

    def look(self) -> Views:
        view = view_of(self.game, self.states[-1], self.actions)
        self.views.append(view)
        return view

    def act(self, action: int) -> None:
        self.actions.append(action)
        self.states.append(self.game.apply(self.states[-1], action))


def view_of(game: LoopGame, state: GameState, history: Sequence[int] = ()) -> Views:
    """The network's input for a state, after the actions in `history`."""
    view: PolicyView = observe(game, state, "policy", history)
    return Views(
        rows=view["loops"][None],
        present=view["rows"][None].astype(np.bool_),
        cursor=np.array([state.cursor], np.int64),
        machine=view["globals"][None],
        mask=game.mask(state)[None],
    )


def joined(views: Sequence[Views]) -> Views:
    """Concatenate views."""
    return Views(
        *(np.concatenate([getattr(view, part.name) for view in views]) for part in fields(Views))
    )


def _choice(
    chances: NDArray[np.float64], rng: np.random.Generator, greedy: bool, explore: float
) -> int:
    if explore and rng.random() < explore:
        return int(rng.choice(np.flatnonzero(np.isfinite(chances))))
    if greedy:
        return int(chances.argmax())
    likely = np.exp(chances)
    return int(rng.choice(len(likely), p=likely / likely.sum()))


# Episodes are sent between processes as archives of arrays.


def packed(episodes: Sequence[Episode]) -> bytes:
    """Episodes as bytes."""
    arrays: dict[str, NDArray[Any]] = {
        "length": np.array([len(each) for each in episodes]),
        "problem": np.array([each.problem for each in episodes]),
        "schedule": np.array([each.schedule for each in episodes]),
        "speed_up": np.array([each.speed_up for each in episodes]),
    }
    for name in ("actions", "rewards", "seconds"):
        arrays[name] = np.concatenate([getattr(each, name) for each in episodes])
    views = joined([each.views for each in episodes])
    for part in fields(Views):
        arrays[f"views.{part.name}"] = getattr(views, part.name)
    return packed_arrays(arrays)


def unpacked(data: bytes) -> list[Episode]:
    """The episodes from the bytes of `packed`."""
    arrays = unpacked_arrays(data)
    ends = np.cumsum(arrays["length"])
    episodes = []
    for at, (end, length) in enumerate(zip(ends, arrays["length"], strict=True)):
        here = slice(int(end - length), int(end))
        views = Views(*(arrays[f"views.{part.name}"][here] for part in fields(Views)))
        episodes.append(
            Episode(
                problem=int(arrays["problem"][at]),
                views=views,
                actions=arrays["actions"][here],
                rewards=arrays["rewards"][here],
                seconds=arrays["seconds"][here],
                schedule=str(arrays["schedule"][at]),
                speed_up=float(arrays["speed_up"][at]),
            )
        )
    return episodes


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as the bytes of an npz file."""
    data = io.BytesIO()
    np.savez(data, **dict(arrays))  # type: ignore[arg-type]
    return data.getvalue()


def unpacked_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays from the bytes of `packed_arrays`; nothing is unpickled."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
