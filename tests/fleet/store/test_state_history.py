"""Numbers of jobs over time, and the pace: what pages read from the history of jobs."""

import sqlite3
from typing import Any

import pytest
from crew import crew, load, on_sqlite
from sqlalchemy import Connection, event, insert, update
from sqlalchemy.exc import OperationalError

from skipjack.fleet.store import Store
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock

pytestmark = on_sqlite
MINUTE_S = 60.0


def make_older(store: Store, seconds: float) -> None:
    """Move everything that happened so far into the past."""
    with store.database.engine.begin() as on:
        for column in (tables.jobs.c.created, tables.labels.c.created, tables.history.c.at):
            on.execute(update(column.table).values({column.name: column - seconds}))


def add_endings(store: Store, job: int, *at: float) -> None:
    """Add the evaluation of a job at these times."""
    row = {"job": job, "event": "told", "before": "evaluating", "after": "evaluated"}
    row |= {"epoch": 0, "round": 1, "attempt": 1, "reason": ""}
    with store.database.engine.begin() as on:
        on.execute(insert(tables.history), [{**row, "at": each} for each in at])


def test_a_transaction_that_is_repeated_counts_nothing_twice(store: Store) -> None:
    load(store, 3)
    crew(store).build(b"code")
    make_older(store, 10 * MINUTE_S)
    expected = store.browsing.progress().timeline
    failures: list[str] = []

    def interfere(_: Connection, __: Any, statement: str, *___: Any) -> None:
        if '"after" IN' in statement and not failures:
            failures.append(statement)
            busy = sqlite3.OperationalError("database is locked")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise OperationalError(statement, {}, busy)

    event.listen(store.database.engine, "before_cursor_execute", interfere)
    found = store.browsing.progress(label="resnet").timeline
    assert failures
    assert found.counts == expected.counts
    assert found.counts["built"][-1] == 1
    assert found.counts["building"][-1] == 0


def test_the_pace_is_that_of_the_window_in_which_endings_are_counted(store: Store) -> None:
    """One job ended each second: 3600 an hour, wherever the window's first minute begins."""
    (job,) = load(store)
    make_older(store, 60 * MINUTE_S)
    with store.database.engine.connect() as on:
        now = clock.read(on)
    add_endings(store, job, *(now - each for each in range(2000)))
    found = store.browsing.throughput()
    assert found.jobs_per_hour == pytest.approx(3600.0, rel=0.005)


def test_where_nobody_works_no_end_is_expected(store: Store) -> None:
    job, *_ = load(store, 3)
    make_older(store, 60 * MINUTE_S)
    with store.database.engine.connect() as on:
        now = clock.read(on)
    add_endings(store, job, *(now - 600.0 - each for each in range(50)))
    found = store.browsing.throughput()
    assert found.open and found.finished
    assert found.stalled and found.seconds_left is None and found.ends_at is None
    add_endings(store, job, now - 1.0)
    again = store.browsing.throughput()
    assert not again.stalled and again.seconds_left
