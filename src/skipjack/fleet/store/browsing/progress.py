"""Numbers of jobs by state over time, and how fast jobs end.

Both come from the history of jobs, which only grows: what was read once is not read again.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import ColumnElement, Connection, Executable, func, literal, literal_column, select

from skipjack.fleet.model import JobStage, JobState
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.dialect import dialect_of

_job, _event = tables.jobs.c, tables.history.c

_WIDTHS_S = (
    *(60, 300, 900, 3600, 3 * 3600, 6 * 3600),
    *(86400, 2 * 86400, 7 * 86400, 28 * 86400, 364 * 86400),
)
"""Widths of periods, in seconds."""
_MOST_PERIODS = 400
"""Periods that are kept in memory."""
_SETTLED_S = 60.0
"""Transactions take less: all rows before an older one are visible."""
_WINDOWS_S = (900.0, 3600.0, 6 * 3600.0, 86400.0)
"""Windows for the present pace, the shortest that has enough jobs."""
_ENOUGH = 20
_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class StateTimeline:
    """Numbers of jobs by state at the ends of periods of the same length."""

    width_s: float
    ends: tuple[float, ...]
    """In seconds since 1970; the last is now, and its period may be unfinished."""
    counts: Mapping[str, tuple[int, ...]]
    """By state, in the order in which jobs pass them; states that never occurred are left out."""
    finished: tuple[int, ...] = ()
    """Jobs that were evaluated in each period."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast jobs end now, and when the last one is expected to."""

    window_s: float
    """The time that was looked at, which begins with a minute: until now."""
    finished: int
    """Jobs that were evaluated, failed or found inapplicable in this time."""
    trials: int
    """Trials that were evaluated in this time."""
    open: int
    """Jobs that wait or are in work."""
    at: float
    """Now, in seconds since 1970."""
    stalled: bool = False
    """Whether nothing is in work, and nothing ended for minutes: nobody works."""

    @property
    def jobs_per_hour(self) -> float:
        return 3600.0 * self.finished / self.window_s if self.window_s else 0.0

    @property
    def trials_per_hour(self) -> float:
        return 3600.0 * self.trials / self.window_s if self.window_s else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Expected time until no job is open; None if none ended recently or nobody works."""
        if not self.open:
            return 0.0
        if self.stalled:
            return None
        return self.open * self.window_s / self.finished if self.finished else None

    @property
    def ends_at(self) -> float | None:
        """When the last open job is expected to end; None if unknown or if none is open."""
        left = self.seconds_left
        return self.at + left if left else None


@dataclass(frozen=True, slots=True)
class ProgressView:
    """The states of jobs over time, and how fast they end."""

    timeline: StateTimeline
    throughput: Throughput


Change = tuple[int, str, str]
"""The start of a period, and the states before and after; before is empty for a new job."""


class StateHistory:
    """Changes of states by period, of one label or of all jobs. Threads take turns."""

    def __init__(self, label: int | None = None) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._width = _WIDTHS_S[0]
        self._settled: Counter[Change] = Counter()
        self._events = self._jobs = 0
        """The last ids that are among the settled ones."""
        self._ended: Counter[int] = Counter()
        """Jobs that ended, by the start of the minute, in the longest window."""
        self._started = False
        self._first = 0.0
        """When the first label, or this one, was made."""

    def progress(self, connection: Connection, periods: int) -> ProgressView:
        """States over at most this many periods, from the first job until now; and the pace."""
        with self._lock:
            now = clock.read(connection)
            if not self._started:
                self._width = self._first_width(connection, now)
                self._started = True
            recent, ended = self._read(connection, now)
            self._widen()
            changes, ended = self._settled + recent, self._ended + ended
            self._forget_ended(now)
            width = self._width
        timeline = _timeline(changes, width, now, periods)
        return ProgressView(timeline, self._throughput(connection, ended, now))

    def _throughput(
        self, connection: Connection, ended: Mapping[int, int], now: float
    ) -> Throughput:
        """The pace in the shortest window in which enough jobs ended."""
        since, finished = now, 0
        for window in _WINDOWS_S:
            since = _beginning(now, window)
            finished = sum(n for minute, n in ended.items() if minute >= since)
            if finished >= _ENOUGH:
                break
        # What is younger than the window did all of it since it was made.
        pace_s = max(1.0, now - max(since, self._first))
        return Throughput(
            pace_s,
            finished,
            _trials_since(connection, since, self._label),
            _open(connection, self._label),
            now,
            now - max(ended, default=0.0) > _STALLED_S and not _working(connection, self._label),
        )

    def _first_width(self, connection: Connection, now: float) -> int:
        query = select(func.min(tables.labels.c.created))
        if self._label is not None:
            query = query.where(tables.labels.c.id == self._label)
        first = connection.execute(query).scalar()
        self._first = now if first is None else float(first)
        span = max(0.0, now - self._first)
        return next((w for w in _WIDTHS_S if 2 * span / w <= _MOST_PERIODS), _WIDTHS_S[-1])

    def _read(self, connection: Connection, now: float) -> tuple[Counter[Change], Counter[int]]:
        """Add what has settled since the last time; returns what is newer.

        A transaction may fail and be repeated, so nothing changes before the last query.
        """
        settled, settled_ended = self._settled.copy(), self._ended.copy()
        recent: Counter[Change] = Counter()
        ended: Counter[int] = Counter()
        events, jobs = self._events, self._jobs
        for ids, at, read in (
            (_event.id, _event.at, self._changes),
            (_job.id, _job.created, self._created),
        ):
            last = events if ids is _event.id else jobs
            unsettled = select(func.min(ids)).where(ids > last, at >= now - _SETTLED_S)
            newest = select(func.max(ids))
            first_new = connection.execute(unsettled).scalar()
            end = connection.execute(newest).scalar() or last
            settled_to = end if first_new is None else first_new - 1
            settled += read(connection, last, settled_to)
            if first_new is not None:
                recent += read(connection, settled_to, end)
            if ids is _event.id:
                settled_ended += self._endings(connection, last, settled_to, now)
                if first_new is not None:
                    ended += self._endings(connection, settled_to, end, now)
                events = settled_to
            else:
                jobs = settled_to
        self._settled, self._ended = settled, settled_ended
        self._events, self._jobs = events, jobs
        return recent, ended

    def _endings(self, connection: Connection, after: int, until: int, now: float) -> Counter[int]:
        """Jobs that ended in the longest window, by the start of the minute."""
        if until <= after:
            return Counter()
        minute = self._period(connection, _event.at, _MINUTE_S)
        query = select(minute, func.count()).where(
            _event.id > after,
            _event.id <= until,
            _event.at >= _beginning(now, _WINDOWS_S[-1]),
            _event.after.in_([str(state) for state in JobState if state.over]),
        )
        if self._label is not None:
            query = query.join(tables.jobs, _job.id == _event.job).where(_job.label == self._label)
        rows = connection.execute(query.group_by(minute))
        return Counter({int(at) * _MINUTE_S: count for at, count in rows})

    def _forget_ended(self, now: float) -> None:
        since = _beginning(now, _WINDOWS_S[-1])
        for minute in [one for one in self._ended if one < since]:
            del self._ended[minute]

    def _changes(self, connection: Connection, after: int, until: int) -> Counter[Change]:
        if until <= after:
            return Counter()
        period = self._period(connection, _event.at, self._width)
        query = select(period, _event.before, _event.after, func.count()).where(
            _event.id > after, _event.id <= until
        )
        if self._label is not None:
            query = query.join(tables.jobs, _job.id == _event.job).where(_job.label == self._label)
        query = query.group_by(period, _event.before, _event.after)
        return _counted(connection, query, self._width)

    def _created(self, connection: Connection, after: int, until: int) -> Counter[Change]:
        if until <= after:
            return Counter()
        period = self._period(connection, _job.created, self._width)
        empty, new = literal(""), literal(str(JobState.NEW))
        query = select(period, empty, new, func.count()).where(_job.id > after, _job.id <= until)
        if self._label is not None:
            query = query.where(_job.label == self._label)
        return _counted(connection, query.group_by(period), self._width)

    @staticmethod
    def _period(
        connection: Connection, at: ColumnElement[float], width_s: int
    ) -> ColumnElement[int]:
        # In the statement, not as a parameter: some databases group by equal texts only.
        width: ColumnElement[float] = literal_column(str(float(width_s)))
        return dialect_of(connection).whole(at / width)

    def _widen(self) -> None:
        """Use longer periods if there are too many."""
        while len({start for start, _, _ in self._settled}) > _MOST_PERIODS:
            wider = next((one for one in _WIDTHS_S if one > self._width), 0)
            if not wider:
                return
            merged: Counter[Change] = Counter()
            for (start, before, after), count in self._settled.items():
                merged[start // wider * wider, before, after] += count
            self._settled, self._width = merged, wider


def _beginning(now: float, window: float) -> float:
    """The start of the minute in which a window begins: endings are counted by the minute."""
    return (now - window) // _MINUTE_S * _MINUTE_S


def _counted(connection: Connection, query: Executable, width: int) -> Counter[Change]:
    found: Counter[Change] = Counter()
    for period, before, after, count in connection.execute(query):
        found[int(period) * width, before, after] += count
    return found


def _timeline(changes: Mapping[Change, int], width: int, now: float, periods: int) -> StateTimeline:
    if not changes:
        return StateTimeline(float(width), (), {})
    first = min(start for start, _, _ in changes)
    while (now - first) / width > periods:
        wider = next((one for one in _WIDTHS_S if one > width), 0)
        if not wider:
            break
        width = wider
    first = first // width * width
    count = int(max(0.0, now - first) // width) + 1
    steps: dict[str, list[int]] = defaultdict(lambda: [0] * count)
    finished = [0] * count
    for (start, before, after), number in changes.items():
        place = min(count - 1, max(0, (start - first) // width))
        steps[after][place] += number
        if before:
            steps[before][place] -= number
        if after == JobState.EVALUATED:
            finished[place] += number
    ends = tuple(min(now, float(first + width * (place + 1))) for place in range(count))
    known = [str(state) for state in JobState if str(state) in steps]
    counts = {state: tuple(accumulate(steps[state])) for state in known}
    return StateTimeline(float(width), ends, counts, tuple(finished))


def _trials_since(connection: Connection, since: float, label: int | None) -> int:
    done = tables.rounds.c
    query = select(func.sum(done.trials)).where(
        done.stage == str(JobStage.EVALUATE), done.created >= since
    )
    if label is not None:
        query = query.join(tables.jobs, _job.id == done.job).where(_job.label == label)
    return int(connection.execute(query).scalar() or 0)


_STALLED_S = 180.0
"""After so long without an end, runs that are alive have at least a job in work."""


def _working(connection: Connection, label: int | None) -> bool:
    """Whether a job is being built or evaluated."""
    job = tables.jobs.c
    states = [str(JobState.BUILDING), str(JobState.EVALUATING)]
    query = select(job.id).where(job.state.in_(states)).limit(1)
    if label is not None:
        query = query.where(job.label == label)
    return connection.execute(query).first() is not None


def _open(connection: Connection, label: int | None) -> int:
    """The number of jobs that wait or are in work."""
    going = [str(state) for state in JobState if state.going]
    query = select(func.count()).select_from(tables.jobs).where(_job.state.in_(going))
    if label is not None:
        query = query.where(_job.label == label)
    return int(connection.execute(query).scalar_one())
