"""Databases pass the conformance kit for plug-ins, which reports errors of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import URL, Connection, Engine, Table, event, text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from skipjack.fleet.model import Claim, ClaimResult, JobStage, WorkRequest
from skipjack.fleet.store import Store
from skipjack.fleet.store.sql import dialect
from skipjack.fleet.store.sql.dialect import Rows, register
from skipjack.fleet.store.sql.sqlite import SQLiteDialect
from skipjack.testing.fleet.stores import StoreConformance


class TestDatabases(StoreConformance):
    @pytest.fixture(autouse=True)
    def _empty(self, store_url: str) -> None:
        self.address = store_url

    def url(self) -> str:
        return self.address


class _Backend(SQLiteDialect_pysqlite):
    name = "broken"
    supports_statement_cache = True


class _Wrapping(SQLiteDialect):
    """A dialect that is right, for a subclass to break in one place."""

    name = "broken"
    schemes = {"broken": "broken"}  # noqa: RUF012
    example = "broken:///file"


class _StandingClock(_Wrapping):
    now = "1e9"


class _LocalClock(_Wrapping):
    now = "((julianday('now', '+3 days') - 2440587.5) * 86400.0)"


class _PieceByPiece(_Wrapping):
    """Commits every statement."""

    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        engine = super().engine(url, read_only=read_only)

        @event.listens_for(engine, "after_cursor_execute")
        def commit(connection: Connection, *rest: object) -> None:
            assert connection.connection.dbapi_connection
            connection.connection.dbapi_connection.commit()

        return engine


class _Shortening(_Wrapping):
    def insert_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        short = [{k: v[:4000] if isinstance(v, str) else v for k, v in row.items()} for row in rows]
        super().insert_rows(connection, table, short)


class _Insensitive(_Wrapping):
    def name_type(self, length: int) -> str:
        return f"VARCHAR({length}) COLLATE NOCASE"


class _Miscounting(_Wrapping):
    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        super().insert_new(connection, table, rows)
        return len(rows)


class _Forgetful(_Wrapping):
    """Writes no event of a job's history."""

    def insert_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        if table.name != "story":
            super().insert_rows(connection, table, rows)


class _Unordered(_Wrapping):
    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        engine = super().engine(url, read_only=read_only)

        @event.listens_for(engine, "before_cursor_execute", retval=True)
        def forget(
            connection: Connection, cursor: Any, statement: str, parameters: Any, *rest: object
        ) -> tuple[str, Any]:
            return statement.replace("jobs.priority DESC, ", ""), parameters

        return engine


class _Queue:
    """A queue that is right, for a subclass to break in one place."""

    def __init__(self, store: Store) -> None:
        self.store, self.ours = store, store.queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ours, name)


class _Sharing(_Queue):
    """Gives each owner the job that the first one has."""

    first: ClassVar[list[Any]] = []

    def claim(self, owner: str, stage: JobStage, wants: Sequence[WorkRequest]) -> list[Any]:
        claimed = self.ours.claim(owner, stage, wants)
        self.first[:] = self.first or claimed[:1]
        return [*claimed[:-1], *self.first] if claimed else []


class _Sleepless(_Queue):
    def sweep(self) -> int:
        return 0


class _Accepting(_Queue):
    def finish(self, owner: str, claim_results: Sequence[ClaimResult]) -> list[Claim]:
        self.ours.finish(owner, claim_results)
        return []


class _CountingTwice(_Queue):
    def finish(self, owner: str, claim_results: Sequence[ClaimResult]) -> list[Claim]:
        if claim_results[0].trials:
            self._execute("UPDATE jobs SET trials = trials + 1")
        return self.ours.finish(owner, claim_results)

    def _execute(self, words: str) -> None:
        with self.store.database.engine.begin() as connection:
            connection.execute(text(words))


class _Blind(_CountingTwice):
    """A view is missing."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._execute("DROP VIEW job_story")


class _Unstoppable(_Queue):
    """Its aborts end nothing."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        store.jobs.abort = lambda **what: 0  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("broken", "test", "said"),
    [
        (_Sharing, "a_job_is_claimed_by_one_owner_only", "job 1 was claimed by two owners"),
        (_Sleepless, "a_lease_that_expires_gives_jobs_back", "a lease of 0.2 s did not expire"),
        (_Accepting, "a_lease_that_expires_gives_jobs_back", "from an owner whose lease was swept"),
        (_Accepting, "a_settlement_of_an_earlier_claim_is_refused", "after attempt 2 has begun"),
        (_CountingTwice, "a_result_counts_once", "reported twice are counted as"),
        (_Unstoppable, "jobs_are_aborted_resumed_and_reset", "after an abort jobs are"),
        (_Blind, "views_answer", "the view job_story has None rows"),
    ],
)
def test_the_kit_tells_what_is_wrong_with_a_store(
    broken: type[_Queue], test: str, said: str, user_dir: Path
) -> None:
    class Kit(StoreConformance):
        patience_s = 0.5

        def url(self) -> str:
            return f"sqlite:///{user_dir.parent}/jobs"

        def open(self, url: str) -> Store:
            store = super().open(url)
            store.queue = broken(store)
            return store

    with pytest.raises(AssertionError, match=said):
        getattr(Kit(), f"test_{test}")()


@pytest.mark.parametrize(
    ("broken", "test", "said"),
    [
        (_StandingClock, "times_are_those_of_the_databases_clock", "50 ms passed, but the clock"),
        (_LocalClock, "times_are_those_of_the_databases_clock", "clock is off by .* in UTC"),
        (_PieceByPiece, "a_transaction_that_is_interrupted_leaves_nothing", "wrote was committed"),
        (_Shortening, "odd_texts_and_large_ones_survive", "60000 characters came back with 4000"),
        (_Insensitive, "odd_texts_and_large_ones_survive", "is not distinguished|IntegrityError"),
        (_Miscounting, "a_store_that_is_opened_again_has_everything", r"\(new, known, tagged\)"),
        (_Forgetful, "the_story_of_a_job_is_complete", r"the events of a job are \[\]"),
        (_Unordered, "urgent_jobs_come_first_and_those_that_failed_last", "of higher priority"),
    ],
)
def test_the_kit_tells_what_is_wrong(
    broken: type[_Wrapping],
    test: str,
    said: str,
    user_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialect, "_known", dict(dialect._known))
    monkeypatch.setitem(registry.impls, "broken", lambda: _Backend)
    register(broken())

    class Kit(StoreConformance):
        def url(self) -> str:
            return f"broken:///{user_dir.parent}/jobs"

    with pytest.raises(AssertionError, match=said):
        getattr(Kit(), f"test_{test}")()
