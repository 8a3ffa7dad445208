"""Runs a search: keeps its budget, measures what it asks for, and records every step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopGame
from skipjack.learn.rates import Rates
from skipjack.learn.tree.methods import Method
from skipjack.learn.tree.paths import Asking, GamePath, TreeContext
from skipjack.learn.tree.remembered_game import RememberedGame
from skipjack.learn.tree.result import SearchRun, SearchStep
from skipjack.solvers.cpu.nest import Schedule

MOST_ACTIONS = 1000
MAX_IDLE = 300
"""A search without an end that meets no new schedule in so many steps has seen what it can."""
_AT_ONCE = 16
"""Schedules that are handed over together; between them it is looked whether to stop."""

MeasuringCosts = dict[tuple[str, Schedule], float]
"""Seconds that it took to measure a schedule of a problem."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How far a search may go. All searches of a comparison have the same."""

    measurements: int | None = 200
    """Distinct schedules, the start included; None without a limit."""
    actions: int = 10
    """The most actions from the start."""
    seconds: float | None = None
    """After so long nothing more is measured."""

    def __post_init__(self) -> None:
        if self.measurements is not None and self.measurements < 1:
            raise UsageError(f"a search needs at least 1 measurement, not {self.measurements}")
        if not 1 <= self.actions <= MOST_ACTIONS:
            raise UsageError(
                f"a search goes 1 to {MOST_ACTIONS} actions from the start, not {self.actions}"
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
    """Search until the budget is spent, the search has ended, or `stop` says so.

    The same seed and the same rates give the same steps. So a search that was stopped is continued
    by running it again: with rates that are kept, what was measured costs nothing.

    Searches that are compared are given the same `costs`. Then each is charged the seconds that its
    measurements took when they were made, whichever search made them first.
    """
    game = RememberedGame(game)
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
    """Answers a search, until there is nothing left to measure with."""

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
    """Seconds that are charged beyond those that went by; less than 0 where they are fewer."""
    interrupted: bool = False

    def follow(self, asking: Asking, max_idle: float) -> None:
        idle = 0
        try:
            paths = next(asking)
            while idle < max_idle:
                before = len(self.known)
                seconds = self._answer(paths)
                if len(seconds) < len(paths):
                    return
                idle = idle + len(paths) if len(self.known) == before else 0
                paths = asking.send(seconds)
        except StopIteration:
            pass
        finally:
            asking.close()

    def _answer(self, paths: Sequence[GamePath]) -> list[float]:
        """The seconds of the paths; of fewer of them where the budget ends in between."""
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
        """How many schedules may be measured now; None without a limit."""
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
