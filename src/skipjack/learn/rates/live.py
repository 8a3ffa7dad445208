"""Schedules built, checked and timed now; the times are kept in a file that all processes share."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from skipjack.core import Config, Device, Problem, Trial, protocol_for
from skipjack.errors import UsageError, WorkerError
from skipjack.learn.loops import loop_solver
from skipjack.learn.rates.rates import CountedRates
from skipjack.native import cpu
from skipjack.settings import Settings, load_settings
from skipjack.solvers import BuildingSolver
from skipjack.solvers.cpu.nest import Schedule

if TYPE_CHECKING:
    from skipjack.tuning import ConfigTimer


# A cache of measured times in an SQLite file that all processes of a user share.
#
# If it cannot be opened, read or written, that is logged once, and times are measured again.

log = logging.getLogger(__name__)

FILE_NAME = "loop_rates.sqlite"
_WAIT_S = 30.0
_AT_ONCE = 500
_SCHEMA = """
create table if not exists rates (
    place text not null,
    schedule text not null,
    time_ns real,
    primary key (place, schedule)
) without rowid
"""


@dataclass(frozen=True, slots=True)
class RateKey:
    """Everything that a time depends on except the schedule."""

    problem: str
    solver: str
    version: int
    """The solver's version."""
    device_class: str
    compiler: str
    protocol: str

    @property
    def key(self) -> str:
        """All parts as text."""
        parts = (self.problem, self.solver, str(self.version), self.device_class, self.compiler)
        return "|".join((*parts, self.protocol))


class RateCache:
    """Times by key and schedule; the first time that is written stays."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection | None] = []
        """Connections of a parent process, which must not be used or closed here."""
        self._failed = False

    def find(self, rate_key: RateKey, schedules: Sequence[str]) -> dict[str, float | None]:
        """The known times in nanoseconds; None for schedules that cannot run."""
        found: dict[str, float | None] = {}
        for at in range(0, len(schedules), _AT_ONCE):
            some = schedules[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"select schedule, time_ns from rates where place = ? and schedule in ({marks})"
            found |= dict(self._rows(query, [rate_key.key, *some]))
        return found

    def best(self, rate_key: RateKey) -> tuple[str, float] | None:
        """The fastest schedule of a key, and its time."""
        query = (
            "select schedule, time_ns from rates where place = ? and time_ns is not null "
            "order by time_ns, schedule limit 1"
        )
        for schedule, time_ns in self._rows(query, [rate_key.key]):
            return schedule, float(time_ns or 0.0)
        return None

    def keep(
        self, rate_key: RateKey, times_ns: Mapping[str, float | None]
    ) -> dict[str, float | None]:
        """Store times; returns the stored ones, which another process may have written first."""
        rows = [(rate_key.key, schedule, time_ns) for schedule, time_ns in times_ns.items()]
        try:
            if connection := self._open():
                with connection:
                    connection.executemany("insert or ignore into rates values (?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._give_up(error)
        return {**times_ns, **self.find(rate_key, list(times_ns))}

    def _rows(self, query: str, values: Sequence[str]) -> list[tuple[str, float | None]]:
        try:
            connection = self._open()
            return list(connection.execute(query, values)) if connection else []
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_connection": None, "_inherited": []}

    def _leave_parent(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._inherited.append(self._connection)
            self._connection = None

    def _open(self) -> sqlite3.Connection | None:
        self._leave_parent()
        if self._connection is None and not self._failed:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(self._path, timeout=_WAIT_S)
                with self._connection:
                    self._connection.execute(_SCHEMA)
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)
        return self._connection

    def _give_up(self, error: Exception) -> None:
        if not self._failed:
            log.warning("times of schedules cannot be kept in %s: %s", self._path, error)
        self._failed = True
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._leave_parent()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# Times measured now: schedules are built, checked and timed in worker processes.


_MOST_DRIFT = 1.5
"""The largest factor by which times are scaled to compare with those of earlier runs."""
_ATTEMPTS = 2
"""The attempts if the worker processes do not start."""


class LiveRates(CountedRates):
    """`Rates` of this machine's CPU. Use it from one thread, and close it.

    A copy in another process (pickled or forked) has its own workers.

    A schedule is built and timed in worker processes (`ConfigTimer`), and its result is checked
    once for each build; a crash or a hang affects only that schedule. New schedules run in the same
    blocks as the fastest so far. If earlier runs measured the problem, their fastest schedule is
    timed again, and new times are scaled accordingly. Processes that time on the same core wait for
    each other.
    """

    def __init__(
        self,
        device: Device | None = None,
        settings: Settings | None = None,
        *,
        keep: bool = True,
        make_timer: Callable[[], ConfigTimer] | None = None,
    ) -> None:
        """Without `keep`, no times are read from or written to disk. `make_timer` is for tests."""
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
        """Timers of a parent process, which must end their workers itself."""
        self._known: dict[str, dict[str, float | None]] = {}
        self._scales: dict[str, float] = {}
        self._explained: set[str] = set()
        self._protocol = protocol_for(self.device).key
        self.timed = 0
        """The number of schedules that this object timed; the others were known."""

    def _check_here(self) -> None:
        here = cpu.detect(self.device.units)
        if here.class_key != self.device.class_key:
            raise UsageError(
                f"schedules for {self.device.name} must be timed on that CPU, but this is "
                f"{here.name}; replay a table that was measured there"
            )

    def _own_timer(self) -> ConfigTimer:
        from skipjack.tuning import ConfigTimer  # not needed to replay or estimate

        alone = self._settings.build_workers == 1 and len(cpu.usable_cores()) == 1
        return ConfigTimer(self.device, self._settings, builds_first=alone)

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Times from memory or disk if known, otherwise measured now."""
        self._leave_parent()
        rate_key = self.rate_key(problem)
        known = self._known.setdefault(rate_key.key, {})
        texts = [schedule.text() for schedule in schedules]
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if self._cache and new:
            known |= self._cache.find(rate_key, new)
            new = [text for text in new if text not in known]
        if new:
            times_ns = self._measured(problem, rate_key, new)
            known |= self._cache.keep(rate_key, times_ns) if self._cache else times_ns
            # Schedules that no worker could time are not stored: that is not the schedule's fault.
            known |= dict.fromkeys(text for text in new if text not in times_ns)
        for schedule in schedules:
            self.count(problem, schedule, "measured")
        found = (known[text] for text in texts)
        return [None if time_ns is None else time_ns * 1e-9 for time_ns in found]

    def _leave_parent(self) -> None:
        """After a fork, leave the timer to the parent process, which started its workers."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._inherited.append(self._timer)
            self._timer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_timer": None, "_inherited": []}

    def rate_key(self, problem: Problem) -> RateKey:
        """What the times of a problem depend on except the schedule."""
        solver = loop_solver(problem)
        return RateKey(
            problem.key,
            solver.name,
            solver.version,
            self.device.class_key,
            solver.compiler(),
            self._protocol,
        )

    def _measured(
        self, problem: Problem, rate_key: RateKey, texts: Sequence[str]
    ) -> dict[str, float | None]:
        """Times by text; empty if no worker started."""
        solver = loop_solver(problem)
        scale = self._scale(problem, solver, rate_key)
        times_ns = self._timed(problem, solver, texts)
        self.timed += len(times_ns)
        return {
            text: None if time_ns is None else time_ns * scale for text, time_ns in times_ns.items()
        }

    def _scale(self, problem: Problem, solver: BuildingSolver, rate_key: RateKey) -> float:
        """The stored time of the fastest known schedule over its present time."""
        if rate_key.key not in self._scales:
            self._scales[rate_key.key] = 1.0
            best = self._cache.best(rate_key) if self._cache else None
            now = self._timed(problem, solver, [best[0]]).get(best[0]) if best else None
            if best and now:
                scale = best[1] / now
                self._scales[rate_key.key] = min(max(scale, 1 / _MOST_DRIFT), _MOST_DRIFT)
        return self._scales[rate_key.key]

    def _timed(
        self, problem: Problem, solver: BuildingSolver, texts: Sequence[str]
    ) -> dict[str, float | None]:
        configs = [Config(schedule=text) for text in texts]
        for attempt in range(_ATTEMPTS):
            try:
                if self._timer is None:
                    self._timer = self._make_timer().__enter__()
                trials = self._timer.trials(problem, configs, solver.name)
                self._log_reason(problem, trials)
                found = (float(t.metrics["time_ns"]) if t.ok else None for t in trials)
                return dict(zip(texts, found, strict=True))
            except WorkerError as error:
                self._end_timer()
                log.warning("%s could not be timed (attempt %d): %s", problem.key, attempt, error)
        return {}

    def _log_reason(self, problem: Problem, trials: Sequence[Trial]) -> None:
        """Log the reason once if no schedule of a problem has a time so far."""
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
