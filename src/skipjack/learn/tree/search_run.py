"""Running a search: its budget, its measurements and the record of every step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import GameState, LoopGame
from skipjack.learn.rates import Rates
from skipjack.learn.tree.methods import Method
from skipjack.learn.tree.paths import GamePath, RunningSearch, TreeContext
from skipjack.solvers.cpu.nest import Schedule

# The steps and the result of a search.


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A step of a search: a schedule that it requested."""

    problem: str
    search: str
    seed: int
    step: int
    """The number of the step; 0 is the start."""
    actions: tuple[str, ...]
    """The actions from the start of the game."""
    cursor: int
    schedule: str
    """The schedule that was built and measured."""
    seconds: float | None
    """None if the schedule cannot be built or computes wrong results."""
    cached: bool
    """Whether this search had measured the schedule before."""
    measured: int
    """The number of distinct schedules measured so far."""
    elapsed_s: float
    """Seconds since the search began, including those of measurements by other searches."""
    best_s: float | None
    """The fastest time so far."""

    @property
    def action(self) -> str:
        """The last action; empty at the start."""
        return self.actions[-1] if self.actions else ""


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search on one problem with one seed."""

    problem: str
    search: str
    seed: int
    steps: tuple[SearchStep, ...]
    flops: float = 0.0
    """Operations of the problem; 0 if not known."""
    interrupted: bool = False
    """Whether it was stopped early; all steps until then are included."""

    @property
    def best(self) -> SearchStep | None:
        """The first step with the fastest schedule; None if no schedule has a time."""
        usable = [step for step in self.steps if step.seconds is not None]
        return min(usable, key=lambda step: step.seconds or 0.0, default=None)

    @property
    def start_s(self) -> float | None:
        """Seconds of the initial schedule."""
        return self.steps[0].seconds if self.steps else None

    @property
    def gain(self) -> float | None:
        """The speed-up of the best schedule over the initial one."""
        best = self.best
        if best is None or best.seconds is None or self.start_s is None:
            return None
        return self.start_s / best.seconds

    @property
    def measured(self) -> int:
        """The number of distinct schedules measured."""
        return self.steps[-1].measured if self.steps else 0

    @property
    def elapsed_s(self) -> float:
        """Seconds until the last step."""
        return self.steps[-1].elapsed_s if self.steps else 0.0

    def gains_per_action(self) -> list[float | None]:
        """The gain after 0, 1, 2, ... actions of the best path; None if not measured."""
        best, start_s = self.best, self.start_s
        if best is None or start_s is None:
            return []
        seconds = {step.actions: step.seconds for step in self.steps}
        prefixes = (best.actions[:length] for length in range(len(best.actions) + 1))
        known = (seconds.get(prefix) for prefix in prefixes)
        return [start_s / each if each else None for each in known]


# A game with caches for masks, states and schedules.


class CachedGame(LoopGame):
    """A game with caches, because searches visit the same states often."""

    def __init__(self, game: LoopGame) -> None:
        vars(self).update(vars(game))
        self._masks: dict[GameState, NDArray[np.bool_]] = {}
        self._after: dict[tuple[GameState, int], GameState] = {}
        self._built: dict[GameState, Schedule] = {}

    def mask(self, state: GameState) -> NDArray[np.bool_]:
        """Whether each action is legal; a read-only array."""
        found = self._masks.get(state)
        if found is None:
            found = self._masks[state] = super().mask(state)
            found.flags.writeable = False
        return found

    def apply(self, state: GameState, action: int) -> GameState:
        """The state after an action; `ScheduleError` if it is not legal."""
        found = self._after.get((state, action))
        if found is None:
            found = self._after[state, action] = super().apply(state, action)
        return found

    def built(self, state: GameState) -> Schedule:
        """The schedule that is compiled and measured."""
        found = self._built.get(state)
        if found is None:
            found = self._built[state] = super().built(state)
        return found


# The run of a search within its budget.

MOST_ACTIONS = 1000
MAX_IDLE = 300
"""An endless search is ended after this many steps without a new schedule."""
_AT_ONCE = 16
"""Schedules measured together; `stop` is checked in between."""

MeasuringCosts = dict[tuple[str, Schedule], float]
"""Seconds that measuring took, by problem and schedule."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """The budget of a search; all searches of a comparison have the same."""

    measurements: int | None = 200
    """The most distinct schedules, including the initial one; None for no limit."""
    actions: int = 10
    """The most actions from the start."""
    seconds: float | None = None
    """The time after which nothing more is measured."""

    def __post_init__(self) -> None:
        if self.measurements is not None and self.measurements < 1:
            raise UsageError(f"a search needs at least 1 measurement, not {self.measurements}")
        if not 1 <= self.actions <= MOST_ACTIONS:
            raise UsageError(
                f"the limit of actions must be from 1 to {MOST_ACTIONS}, not {self.actions}"
            )


def run_search(
    problem: Problem,
    game: LoopGame,
    rates: Rates,
    method: Method,
    budget: SearchBudget = SearchBudget(),  # noqa: B008 (frozen)
    *,
    seed: int = 0,
    flops: float = 0.0,
    costs: MeasuringCosts | None = None,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.perf_counter,
) -> SearchRun:
    """Search until the budget is spent, the search has ended, or `stop` returns true.

    The same seed and the same rates give the same steps. So a search that was stopped can be
    continued by running it again: with rates that are kept, known schedules cost nothing.

    Pass the same `costs` to all searches of a comparison. Then each is charged the seconds that its
    measurements took when they were first made, by whichever search.
    """
    game = CachedGame(game)
    context = TreeContext(game, np.random.default_rng(seed), budget.actions, budget.measurements)
    recorder = _Recorder(
        problem,
        game,
        rates,
        method.name,
        seed,
        budget,
        stop,
        clock,
        clock(),
        {} if costs is None else costs,
    )
    recorder.follow(method.search(context), math.inf if method.ends else MAX_IDLE)
    return SearchRun(
        problem.key, method.name, seed, tuple(recorder.steps), flops, recorder.interrupted
    )


@dataclass(slots=True)
class _Recorder:
    """Answers and records a search until its budget is spent."""

    problem: Problem
    game: LoopGame
    rates: Rates
    name: str
    seed: int
    budget: SearchBudget
    stop: Callable[[], bool]
    clock: Callable[[], float]
    began_s: float
    costs: MeasuringCosts
    steps: list[SearchStep] = field(default_factory=list)
    known: dict[Schedule, float | None] = field(default_factory=dict)
    best_s: float | None = None
    ahead_s: float = 0.0
    """Charged seconds minus elapsed seconds."""
    interrupted: bool = False

    def follow(self, running: RunningSearch, max_idle: float) -> None:
        idle = 0
        try:
            paths = next(running)
            while idle < max_idle:
                before = len(self.known)
                seconds = self._answer(paths)
                if len(seconds) < len(paths):
                    return
                idle = idle + len(paths) if len(self.known) == before else 0
                paths = running.send(seconds)
        except StopIteration:
            pass
        finally:
            running.close()

    def _answer(self, paths: Sequence[GamePath]) -> list[float]:
        """The seconds of the paths; of fewer paths if the budget ends in between."""
        seconds: list[float] = []
        rest = iter([(path, self.game.built(path.state)) for path in paths])
        while chunk := list(islice(rest, _AT_ONCE)):
            wanted = dict.fromkeys(built for _, built in chunk if built not in self.known)
            allowed = list(islice(wanted, self._left()))
            fresh = dict(zip(allowed, self._measure(allowed), strict=True)) if allowed else {}
            for path, built in chunk:
                if built not in self.known and built not in fresh:
                    return seconds
                seconds.append(self._record(path, built, fresh))
        return seconds

    def _measure(self, schedules: Sequence[Schedule]) -> list[float | None]:
        began_s = self.clock()
        seconds = self.rates.seconds(self.problem, schedules)
        took_s = self.clock() - began_s
        for schedule in schedules:
            key = self.problem.key, schedule
            self.ahead_s += self.costs.setdefault(key, took_s / len(schedules))
        self.ahead_s -= took_s
        return seconds

    def _elapsed_s(self) -> float:
        return self.clock() - self.began_s + self.ahead_s

    def _left(self) -> int | None:
        """How many schedules may be measured now; None for no limit."""
        if self.stop():
            self.interrupted = True
            return 0
        limit = self.budget.seconds
        if limit is not None and self._elapsed_s() >= limit:
            return 0
        most = self.budget.measurements
        return None if most is None else most - len(self.known)

    def _record(
        self, path: GamePath, built: Schedule, fresh: dict[Schedule, float | None]
    ) -> float:
        cached = built in self.known
        seconds = self.known.setdefault(built, fresh.get(built))
        if seconds is not None and (self.best_s is None or seconds < self.best_s):
            self.best_s = seconds
        names = tuple(self.game.actions[action] for action in path.actions)
        self.steps.append(
            SearchStep(
                self.problem.key, self.name, self.seed, len(self.steps), names,
                path.state.cursor, built.text(), seconds, cached, len(self.known),
                self._elapsed_s(), self.best_s,
            )
        )  # fmt: skip
        return math.inf if seconds is None else seconds
