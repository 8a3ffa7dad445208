"""The environment ``skipjack/LoopNest-v0``: an agent schedules a loop nest, step by step.

An episode is one game (`skipjack.learn.loops`) on a problem of a dataset. It is terminated when the
agent stops or no action is legal, and truncated after `episode_steps`. `step` never raises: an
illegal action changes nothing, and a schedule that cannot be built has a rate of 0.

The legal actions are available as `action_masks` (for sb3-contrib), as ``info["action_mask"]`` (for
`Discrete.sample`), and, with ``action_mask=True``, in the observation, which then is a dictionary.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from operator import index
from typing import Any, SupportsFloat, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from skipjack import plugins
from skipjack.core import Device, Problem
from skipjack.errors import ScheduleError, UsageError
from skipjack.learn.environment.spaces import (
    GameReward,
    StepTimes,
    observation_space,
    reward_of,
    with_mask,
)
from skipjack.learn.loops import (
    MEASURED,
    OBSERVATIONS,
    GameState,
    LoopDataset,
    LoopGame,
    Preset,
    find_problems,
    loop_game,
    loop_tree,
    observe,
    refusal,
)
from skipjack.learn.rates import (
    LIVE,
    LoopTable,
    Rates,
    TableRates,
    close_rates,
    gflops,
    open_rates,
    peak_gflops,
    rated_device,
)
from skipjack.operations import get, is_known, parse
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule

_GAMES_KEPT = 256
_log = logging.getLogger(__name__)

T = TypeVar("T", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """A record of an episode: the same actions with the same rates give the same rewards."""

    problem: str
    actions: tuple[str, ...]
    rewards: tuple[float, ...]
    schedule: str


class LoopNestEnv(gymnasium.Env[Any, Any]):
    """The environment. `game` is the game of the episode, and `state` its state."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium

    def __init__(
        self,
        dataset: str | LoopDataset | Sequence[str | Problem] = "matmul:128x128x128",
        *,
        split: str = "train",
        observation: str | Sequence[str] = "loops_tensor",
        reward: str = GameReward.FLOPS_GAIN,
        preset: str = Preset.LOOPTUNE,
        episode_steps: int | None = None,
        rates: Rates | str = LIVE,
        device: Device | str | None = None,
        threads: int | None = None,
        max_gflops: float | None = None,
        action_mask: bool = False,
        illegal_reward: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        """Create an environment on the problems of a dataset, or on named problems.

        `rates` gives the times of schedules: an object, or a text for `open_rates`: ``live``,
        ``model``, or a file or folder of tables, which are replayed. Tables of another machine give
        that machine's game. `max_gflops` is the peak to which rewards are relative; by default it
        is ``MAX_GFLOPS`` or the measured peak.
        """
        self.preset = _member(Preset, preset, "preset")
        self.reward_kind = _member(GameReward, reward, "reward")
        self.render_mode = _checked_mode(render_mode)
        plugins.load(load_settings().plugins)
        self.problems = _problems(dataset, split)
        if threads is not None and not (_is_whole(threads) and threads >= 1):
            raise UsageError(f"threads is {threads!r}; it must be a whole number, 1 or more")
        if not isinstance(device, Device | str | None):
            raise UsageError(f"device is {device!r}; give a name, such as znver4/1, or a device")
        if not (isinstance(rates, str) or hasattr(rates, "seconds")):
            raise UsageError(
                f"rates is {rates!r}; give a string, such as live or model, or an object"
            )
        self.device = rated_device(rates, device, threads)
        self._refuse_unplayable()
        self._owns_rates = isinstance(rates, str)
        self.rates = open_rates(rates, self.device) if isinstance(rates, str) else rates
        if max_gflops is not None and not (_is_real(max_gflops) and 0 < float(max_gflops) < inf):
            raise UsageError(f"max_gflops is {max_gflops!r}; give the machine's peak in GFLOP/s")
        self.max_gflops = None if max_gflops is None else float(max_gflops)
        self.peaks: dict[str, float] = {}
        self.episode_steps = self.preset.episode_steps if episode_steps is None else episode_steps
        if not _is_whole(self.episode_steps) or self.episode_steps < 1:
            said = f"episode_steps is {episode_steps!r}; it must be a whole number, 1 or more"
            raise UsageError(said)
        if not _is_real(illegal_reward) or not isfinite(illegal_reward):
            raise UsageError(f"illegal_reward is {illegal_reward!r}; it must be a finite number")
        self.illegal_reward = float(illegal_reward)
        self.names = _observations(observation)
        if not self.names:
            raise UsageError(
                f"the list of observations is empty; choose from {', '.join(OBSERVATIONS)}"
            )
        self.masked = action_mask
        self.action_space = spaces.Discrete(len(self.preset.actions))
        self.observation_space = observation_space(self.names, self.preset, action_mask=action_mask)
        self._games: dict[Problem, LoopGame] = {}
        self._begin(self.problems[0])

    # the interface of gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a game on a problem of the dataset, drawn at random.

        ``options={"problem": KEY}`` chooses the problem, which need not be in the dataset.
        """
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self.problems)))
        chosen = (options or {}).get("problem")
        if chosen is None:
            self._begin(self.problems[drawn])
        else:
            problem = chosen if isinstance(chosen, Problem) else find_problems(str(chosen))[0]
            self._begin(problem)
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play an action; an illegal one changes nothing."""
        reason = self._play(action)
        over = self.state.stopped or not self.action_masks().any()
        cut = not over and len(self.history) >= self.episode_steps
        reward = self.illegal_reward if reason else self._reward(over or cut)
        self.ended = over or cut
        self.rewards.append(reward)
        return self._observation(), reward, over, cut, self._info(reason)

    def render(self) -> Any:
        """The loops as text."""
        if self.render_mode is None:
            return None
        return loop_tree(self.game.nest, self.state.schedule, self.state.cursor)

    def close(self) -> None:
        """End the processes that measure."""
        if self._owns_rates:
            close_rates(self.rates)

    # for learners

    def action_masks(self) -> NDArray[np.bool_]:
        """Whether each action is legal now."""
        return self.game.mask(self.state)

    def record(self) -> EpisodeRecord:
        """The episode so far."""
        actions = tuple(self.game.actions[action] for action in self.history)
        built = self.game.built(self.state)
        return EpisodeRecord(self.problem.key, actions, tuple(self.rewards), built.text())

    def measurements(self) -> dict[Schedule, float | None]:
        """Seconds of the schedules that were measured in this episode."""
        return dict(self._times)

    @property
    def gflops(self) -> float:
        """The rate of the present schedule in GFLOP/s; it is measured if it is not known."""
        seconds = self._seconds()
        return gflops(self.problem, seconds)

    # internal

    def _begin(self, problem: Problem) -> None:
        self.game = self._game(problem)
        self.problem = problem
        if problem.dtype not in self.peaks:
            self.peaks[problem.dtype] = self._peak(problem)
        self.state = self.game.start()
        self.history: list[int] = []
        self.rewards: list[float] = []
        self.ended = False
        self._flops = get(problem.operation).flops(problem)
        self._times: dict[Schedule, float | None] = {}
        self._before = self.state

    def _game(self, problem: Problem) -> LoopGame:
        if problem not in self._games:
            if len(self._games) >= _GAMES_KEPT:
                self._games.clear()
            self._games[problem] = loop_game(problem, self.device, self.preset)
        return self._games[problem]

    def _play(self, action: Any) -> str:
        """Play an action; returns why it is illegal, or an empty string."""
        self._before = self.state
        number = _number(action, len(self.game.actions))
        if self.ended:
            return "the episode has ended; reset the environment"
        if number is None:
            return f"{action!r} is not an action"
        self.history.append(number)
        try:
            self.state = self.game.apply(self.state, number)
        except ScheduleError as error:
            return str(error)
        return ""

    def _reward(self, ended: bool) -> float:
        kind = self.reward_kind
        if kind is GameReward.FINAL and not ended:
            return 0.0
        before = self._before if kind is not GameReward.FINAL else self.game.start()
        if self.game.built(self.state) == self.game.built(before):
            return 0.0
        times = StepTimes(self._seconds(self.game.start()), self._seconds(before), self._seconds())
        return reward_of(
            kind, times, flops=self._flops, peak=self.peaks[self.problem.dtype], ended=ended
        )

    def _seconds(self, state: GameState | None = None) -> float | None:
        """Seconds of a state's schedule, measured once in an episode."""
        built = self.game.built(state or self.state)
        if built not in self._times:
            self._times[built] = _measured(self.rates, self.problem, built)
        return self._times[built]

    def _peak(self, problem: Problem) -> float:
        """The peak in operations per second."""
        if self.max_gflops is not None:
            return self.max_gflops * 1e9
        if self.reward_kind is not GameReward.FLOPS_GAIN:
            return 1.0
        return self._measured_peak(problem) * 1e9

    def _measured_peak(self, problem: Problem) -> float:
        """The peak of this machine; of another machine, the highest rate in its table."""
        try:
            return peak_gflops(problem, self.device)
        except UsageError:
            if not isinstance(self.rates, TableRates):
                raise
            return highest_gflops(self.rates.table, problem.dtype)

    def _observation(self) -> Any:
        if isinstance(self.names, str):
            seen = self._one(self.names)
        else:
            seen = {name: self._one(name) for name in self.names}
        return with_mask(seen, self.action_masks().astype(np.int8)) if self.masked else seen

    def _one(self, name: str) -> Any:
        seconds = self._seconds() if name in MEASURED else None
        return observe(
            self.game, self.state, name, self.history, seconds=seconds, flops=self._flops
        )

    def _info(self, reason: str = "") -> dict[str, Any]:
        built = self.game.built(self.state)
        seconds = self._times.get(built)
        return {
            "action_mask": self.action_masks().astype(np.int8),
            "problem": self.problem.key,
            "schedule": self.state.schedule.text(),
            "built": built.text(),
            "cursor": self.state.cursor,
            "illegal": reason,
            "gflops": self._flops / seconds / 1e9 if seconds else 0.0,
        }

    def _kinds(self) -> list[Problem]:
        """All problems of a short list; otherwise one of each kind."""
        if len(self.problems) <= _GAMES_KEPT // 4:
            return self.problems
        kinds = {(each.operation, each.dtype, each.direction): each for each in self.problems}
        return list(kinds.values())

    def _refuse_unplayable(self) -> None:
        for problem in self._kinds():
            reason = refusal(problem, self.device)
            if reason:
                raise UsageError(f"problem {problem.key} cannot be played: {reason}")


def _measured(rates: Rates, problem: Problem, schedule: Schedule) -> float | None:
    try:
        seconds = rates.seconds(problem, [schedule])[0]
    except Exception as error:  # a failure must not end a training of hours
        _log.warning("no rate of %s under '%s': %s", problem.key, schedule, error)
        return None
    return seconds if seconds and seconds > 0 else None


def highest_gflops(table: LoopTable, dtype: str) -> float:
    """The highest rate in a table, in GFLOP/s."""
    known = [key for key in table.times_ns if is_known(key.partition(":")[0])]
    problems = [each for each in map(parse, known) if each.dtype == dtype]
    best = ((each, table.best_ns(each)) for each in problems)
    rates = [gflops(each, time_ns * 1e-9) for each, time_ns in best if time_ns]
    if not rates:
        raise UsageError(f"the table has no times of problems in {dtype}; set MAX_GFLOPS")
    return max(rates)


def _problems(dataset: str | LoopDataset | Sequence[str | Problem], split: str) -> list[Problem]:
    if isinstance(dataset, str):
        found = find_problems(dataset, split)
    elif isinstance(dataset, LoopDataset):
        found = dataset.problems(split)
    elif not isinstance(dataset, Iterable):
        raise UsageError(f"dataset is {dataset!r}; give a name, a dataset, or problems")
    else:
        odd = [each for each in dataset if not isinstance(each, Problem | str)]
        if odd:
            raise UsageError(
                f"dataset contains {odd[0]!r}; give problems, such as matmul:128x128x128"
            )
        found = [each if isinstance(each, Problem) else parse(each) for each in dataset]
    if not found:
        raise UsageError(f"the split {split} of the dataset is empty; choose another one")
    return found


def _observations(named: str | Sequence[str]) -> str | tuple[str, ...]:
    if isinstance(named, str):
        return named
    if not isinstance(named, Iterable) or not all(isinstance(each, str) for each in named):
        raise UsageError(f"observation is {named!r}; give a name, or a list of names")
    return tuple(named)


def _is_real(value: object) -> bool:
    return isinstance(value, SupportsFloat) and not isinstance(value, str | bool)


def _is_whole(value: Any) -> bool:
    return _is_real(value) and isfinite(value) and value == int(value)


def _number(action: Any, count: int) -> int | None:
    """The number of an action; None if it is not one."""
    try:
        number = index(action)
    except TypeError:
        return None
    return number if 0 <= number < count else None


def _member(kind: type[T], text: str, what: str) -> T:
    if not isinstance(text, str) or text not in list(kind):
        raise UsageError(f"there is no {what} {text!r}; choose from {', '.join(kind)}")
    return kind(text)


def _checked_mode(mode: str | None) -> str | None:
    known = LoopNestEnv.metadata["render_modes"]
    if mode not in (None, *known):
        raise UsageError(f"there is no render mode {mode!r}; choose from {', '.join(known)}")
    return mode
