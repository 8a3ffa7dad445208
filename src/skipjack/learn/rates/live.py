"""Schedules built, checked and timed now by the engine's own timer of configs, and kept on disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import protocol_for
from skipjack.core.trial import Trial
from skipjack.errors import UsageError, WorkerError
from skipjack.learn.loops import loop_solver
from skipjack.learn.rates.cache import RateCache, RatePlace
from skipjack.learn.rates.rates import Counted
from skipjack.native import cpu
from skipjack.settings import Settings, load_settings
from skipjack.solvers import BuildingSolver
from skipjack.solvers.cpu.nest import Schedule

if TYPE_CHECKING:
    from skipjack.tuning import ConfigTimer

log = logging.getLogger(__name__)

_MOST_DRIFT = 1.5
"""Times are scaled by at most this factor to compare with those of earlier runs."""
_ATTEMPTS = 2
"""Of a call whose worker processes do not come up."""


class LiveRates(Counted):
    """`Rates` of this machine's CPU. Use it from one thread, and close it.

    A copy in another process (pickled, or forked along) has workers of its own.

    A schedule is built and timed in worker processes (`ConfigTimer`), its result checked once for
    each build; a crash or a hang costs that schedule alone. New schedules run in the same blocks as
    the fastest so far. Where earlier runs know the problem, their fastest schedule is timed once
    more, and new times are scaled by what it takes now. Processes that time on the same core wait
    for each other.
    """

    def __init__(
        self,
        device: Device | None = None,
        settings: Settings | None = None,
        *,
        keep: bool = True,
        make_timer: Callable[[], ConfigTimer] | None = None,
    ) -> None:
        """Without `keep`, nothing is read from disk or written there. `make_timer` is for tests."""
        super().__init__()
        self.device = device or cpu.detect()
        self._settings = settings or load_settings()
        self._make_timer = make_timer or self._own_timer
        if make_timer is None:
            self._check_here()
        self._cache = RateCache(self._settings.user_dir) if keep else None
        self._timer: ConfigTimer | None = None
        self._process = os.getpid()
        self._inherited: list[ConfigTimer | None] = []
        """Whose workers answer another process; to end them is up to it."""
        self._known: dict[str, dict[str, float | None]] = {}
        self._scales: dict[str, float] = {}
        self._explained: set[str] = set()
        self._protocol = protocol_for(self.device).key
        self.timed = 0
        """Schedules that were timed by this object; the others were known."""

    def _check_here(self) -> None:
        here = cpu.detect(self.device.units)
        if here.class_key != self.device.class_key:
            raise UsageError(
                f"schedules for {self.device.name} are timed on that CPU, and this is {here.name}; "
                "replay a table that was measured there"
            )

    def _own_timer(self) -> ConfigTimer:
        from skipjack.tuning import ConfigTimer  # who replays or estimates needs no engine

        alone = self._settings.build_workers == 1 and len(cpu.usable_cores()) == 1
        return ConfigTimer(self.device, self._settings, builds_first=alone)

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Known ones from memory or disk, the others measured now."""
        self._leave_parent()
        place = self.place(problem)
        known = self._known.setdefault(place.key, {})
        texts = [schedule.text() for schedule in schedules]
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if self._cache and new:
            known |= self._cache.find(place, new)
            new = [text for text in new if text not in known]
        if new:
            times_ns = self._measured(problem, place, new)
            known |= self._cache.keep(place, times_ns) if self._cache else times_ns
            # What no worker could take on is not written down: that says nothing of the schedule.
            known |= dict.fromkeys(text for text in new if text not in times_ns)
        for schedule in schedules:
            self.count(problem, schedule, "measured")
        found = (known[text] for text in texts)
        return [None if time_ns is None else time_ns * 1e-9 for time_ns in found]

    def _leave_parent(self) -> None:
        """After a fork: pipes to workers belong to the process that started them."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._inherited.append(self._timer)
            self._timer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_timer": None, "_inherited": []}

    def place(self, problem: Problem) -> RatePlace:
        """What else the times of a problem depend on."""
        solver = loop_solver(problem)
        return RatePlace(
            problem.key,
            solver.name,
            solver.version,
            self.device.class_key,
            solver.compiler(),
            self._protocol,
        )

    def _measured(
        self, problem: Problem, place: RatePlace, texts: Sequence[str]
    ) -> dict[str, float | None]:
        """By text; nothing where no worker came up for the problem."""
        solver = loop_solver(problem)
        scale = self._scale(problem, solver, place)
        times_ns = self._timed(problem, solver, texts)
        self.timed += len(times_ns)
        return {
            text: None if time_ns is None else time_ns * scale for text, time_ns in times_ns.items()
        }

    def _scale(self, problem: Problem, solver: BuildingSolver, place: RatePlace) -> float:
        """Of the fastest known schedule: its kept time over what it takes now."""
        if place.key not in self._scales:
            self._scales[place.key] = 1.0
            best = self._cache.best(place) if self._cache else None
            now = self._timed(problem, solver, [best[0]]).get(best[0]) if best else None
            if best and now:
                scale = best[1] / now
                self._scales[place.key] = min(max(scale, 1 / _MOST_DRIFT), _MOST_DRIFT)
        return self._scales[place.key]

    def _timed(
        self, problem: Problem, solver: BuildingSolver, texts: Sequence[str]
    ) -> dict[str, float | None]:
        configs = [Config(schedule=text) for text in texts]
        for attempt in range(_ATTEMPTS):
            try:
                if self._timer is None:
                    self._timer = self._make_timer().__enter__()
                trials = self._timer.trials(problem, configs, solver.name)
                self._say_why(problem, trials)
                found = (float(t.metrics["time_ns"]) if t.ok else None for t in trials)
                return dict(zip(texts, found, strict=True))
            except WorkerError as error:
                self._end_timer()
                log.warning("%s could not be timed (attempt %d): %s", problem.key, attempt, error)
        return {}

    def _say_why(self, problem: Problem, trials: Sequence[Trial]) -> None:
        """Once, if no schedule of a problem has a time so far."""
        if problem.key in self._explained or any(trial.ok for trial in trials):
            self._explained.add(problem.key)
        elif trials:
            self._explained.add(problem.key)
            reason = trials[0].reason or trials[0].status
            text = trials[0].config["schedule"]
            log.warning("no time of %s under '%s': %s", problem.key, text, reason)

    def _end_timer(self) -> None:
        if self._timer is not None:
            timer, self._timer = self._timer, None
            timer.__exit__(None, None, None)

    def close(self) -> None:
        """End the worker processes."""
        self._leave_parent()
        self._end_timer()
        if self._cache:
            self._cache.close()

    def __enter__(self) -> LiveRates:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
