"""Measured times of schedules in one SQLite file, which all processes of a user share.

It is a cache: where it cannot be opened, read or written, that is logged once, and times are
measured again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
class RatePlace:
    """Everything but the schedule that a time depends on."""

    problem: str
    solver: str
    version: int
    """The solver's."""
    device_class: str
    compiler: str
    protocol: str

    @property
    def key(self) -> str:
        """Text of all of it."""
        parts = (self.problem, self.solver, str(self.version), self.device_class, self.compiler)
        return "|".join((*parts, self.protocol))


class RateCache:
    """Times by place and schedule. Whoever writes one first decides it for all."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection | None] = []
        """Of a process that this one was forked from; not to be used or closed here."""
        self._failed = False

    def find(self, place: RatePlace, schedules: Sequence[str]) -> dict[str, float | None]:
        """The times that are known, in nanoseconds; None for schedules that cannot run."""
        found: dict[str, float | None] = {}
        for at in range(0, len(schedules), _AT_ONCE):
            some = schedules[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"select schedule, time_ns from rates where place = ? and schedule in ({marks})"
            found |= dict(self._rows(query, [place.key, *some]))
        return found

    def best(self, place: RatePlace) -> tuple[str, float] | None:
        """The fastest schedule of a place, and its time."""
        query = (
            "select schedule, time_ns from rates where place = ? and time_ns is not null "
            "order by time_ns, schedule limit 1"
        )
        for schedule, time_ns in self._rows(query, [place.key]):
            return schedule, float(time_ns or 0.0)
        return None

    def keep(
        self, place: RatePlace, times_ns: Mapping[str, float | None]
    ) -> dict[str, float | None]:
        """Write times down; gives those that hold, which may be another process's."""
        rows = [(place.key, schedule, time_ns) for schedule, time_ns in times_ns.items()]
        try:
            if connection := self._open():
                with connection:
                    connection.executemany("insert or ignore into rates values (?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._give_up(error)
        return {**times_ns, **self.find(place, list(times_ns))}

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
            log.warning("times of schedules are not kept in %s: %s", self._path, error)
        self._failed = True
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._leave_parent()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
