"""Session settings of each database, independent of its configuration."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from servers import Server
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError

from skipjack.errors import StorageError
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.dialect import dialect_of, engine_for
from skipjack.settings import Settings
from small_disks import disk, make_read_only, mounted

__all__ = ["disk"]

_TOLD = {
    "sqlite": {
        "PRAGMA journal_mode": "wal",
        "PRAGMA synchronous": 2,
        "PRAGMA foreign_keys": 1,
    },
    "postgresql": {
        "SHOW transaction_isolation": "read committed",
        "SHOW timezone": "UTC",
        "SHOW lock_timeout": "30s",
        "SHOW idle_in_transaction_session_timeout": "15s",
    },
    "mysql": {
        "SELECT @@transaction_isolation": "READ-COMMITTED",
        "SELECT @@time_zone": "+00:00",
        "SELECT @@character_set_client": "utf8mb4",
        "SELECT @@sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "SELECT @@innodb_lock_wait_timeout": 30,
        "SELECT @@idle_transaction_timeout": 15,
    },
}


def test_sessions_are_strict_durable_and_do_not_wait_for_ever(store: Store) -> None:
    with store.database.engine.connect() as connection:
        for question, answer in _TOLD[connection.dialect.name].items():
            # Older MariaDBs have another name for it.
            asked = question.replace("transaction_isolation", "tx_isolation")
            mysql = connection.dialect.name == "mysql"
            found = connection.execute(text(asked if mysql else question)).scalar()
            assert found == answer, question


def test_time_is_the_databases_in_seconds_since_1970(store: Store) -> None:
    with store.database.engine.begin() as connection:
        first = clock.read(connection)
        # The tests' servers believe to be elsewhere: an hour would show.
        assert abs(first - time.time()) < 1200
        while clock.read(connection) <= first:
            pass  # it runs on within a transaction


def test_any_text_comes_back_as_it_went(store: Store) -> None:
    keys = ["matmul:ü", "matmul:😀", "matmul:'\"\\%:x", "MATMUL:ü"]
    store.problems.add([NewProblem(key, "matmul") for key in keys], "Tag 😀")
    assert sorted(row.key for row in store.problems.find(tag="Tag 😀")) == sorted(keys)
    assert store.problems.tags() == [("Tag 😀", 4)]


def test_a_text_that_is_too_long_is_refused_not_cut(store: Store) -> None:
    if store.database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite does not limit texts")
    with (
        pytest.raises(DBAPIError, match=r"(?i)too long"),
        store.database.engine.begin() as connection,
    ):
        connection.execute(
            text("INSERT INTO devices (name, created) VALUES (:name, 0)"), {"name": "x" * 300}
        )


def test_the_store_of_a_user_directory_that_is_read_only_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKIPJACK_DB", raising=False)
    with mounted(tmp_path / "disk", "4m") as disk:
        settings = Settings(disk)
        with open_store(settings=settings) as store:
            store.problems.add([NewProblem("matmul:8x8x8:f32", "matmul")], "tonight")
            before = store.problems.tags()
        make_read_only(disk)
        with open_store(settings=settings, to_read=True) as store:
            assert store.problems.tags() == before and len(before) == 1
            assert (
                not store.labels.all()
                and not store.machines.all()
                and not store.registrations.all()
            )
        with pytest.raises(StorageError, match="cannot use the directory"):
            open_store(settings=settings)


def test_a_user_directory_that_is_read_only_and_has_no_store_has_no_jobs(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKIPJACK_DB", raising=False)
    make_read_only(disk)
    with pytest.raises(StorageError, match="there are no jobs"):
        open_store(settings=Settings(disk), to_read=True)


def test_mysql_is_said_to_be_untested_and_mariadb_is_not(
    mariadb: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(mariadb.fresh()):
        assert "MySQL" not in caplog.text
    # A server of unknown type counts as MySQL, which uses the same driver.
    engine = engine_for(make_url("mysql+pymysql://me:secret@host/name"))
    remark = dialect_of(engine).remark(engine)
    assert "is MySQL, which is not tested; use MariaDB or PostgreSQL" in remark
    assert "secret" not in remark
