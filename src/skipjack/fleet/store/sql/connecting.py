"""Engines: how each database is to behave, whatever its configuration says.

Committed means on disk. Locks are waited for, not for ever. A process that was stopped in the
middle of a transaction does not keep others out.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from skipjack.fleet.store.sql.retrying import READ_ONLY
from skipjack.storage import read_only_uri

_BUSY_S = 30.0
_LOCK_WAIT_S = 30
_IDLE_S = 15
_CONNECT_S = 10
_SILENT_S = 300
"""A server that says nothing for so long is away."""

_MARIADB_SESSION = (
    "SET SESSION time_zone = '+00:00', default_storage_engine = InnoDB, "
    # Strict, because a text that is cut off silently is a lie.
    "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    f"innodb_lock_wait_timeout = {_LOCK_WAIT_S} "
    # A comment to MySQL, which has no such setting.
    f"/*M!100300 , idle_transaction_timeout = {_IDLE_S} */"
)


# Facts are long texts, which the default compresses thoroughly and slowly. Servers before 14, and
# those that were built without it, do not have it.
_QUICK_COMPRESSION = (
    "SELECT set_config(name, 'lz4', false) FROM pg_settings "
    "WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"
)


def engine_for(url: URL, *, read_only: bool = False) -> Engine:
    """An engine on this database; nothing is connected yet. A file may be `read_only`."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, read_only)
    if url.get_backend_name() == "postgresql":
        return _postgresql(url)
    return _mariadb(url)


def streaming_options(engine: Engine) -> dict[str, object]:
    """Execution options for reading page by page while the reader takes its time."""
    if engine.dialect.name == "sqlite":
        return {READ_ONLY: True}  # writers do not mind an old reader
    return {"isolation_level": "AUTOCOMMIT"}


def _sqlite(url: URL, read_only: bool) -> Engine:
    options: dict[str, Any] = {"connect_args": {"timeout": _BUSY_S}}
    if read_only:
        uri = read_only_uri(Path(str(url.database)))
        options = {"creator": lambda: sqlite3.connect(uri, _BUSY_S, uri=True)}
    engine = create_engine(url, hide_parameters=True, **options)

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        # Python's own transactions begin too late and never IMMEDIATE.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        reading = read_only or connection.get_execution_options().get(READ_ONLY, False)
        # Taken at once, a write lock is waited for; a reader that turns writer would only fail.
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL) -> Engine:
    options = {
        "connect_timeout": _CONNECT_S,
        "application_name": "skipjack",
        "keepalives_idle": 30,
        "tcp_user_timeout": 1000 * _SILENT_S,
        "options": f"-c lock_timeout={_LOCK_WAIT_S}s -c timezone=UTC "
        f"-c idle_in_transaction_session_timeout={_IDLE_S}s",
    }
    given = {name: value for name, value in options.items() if name not in url.query}
    engine = create_engine(
        url, hide_parameters=True, isolation_level="READ COMMITTED", connect_args=given
    )

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.execute(_QUICK_COMPRESSION)
        connection.commit()

    return engine


def _mariadb(url: URL) -> Engine:
    options: dict[str, object] = {
        "charset": "utf8mb4",
        "init_command": _MARIADB_SESSION,
        "connect_timeout": _CONNECT_S,
        "read_timeout": _SILENT_S,
        "write_timeout": _SILENT_S,
    }
    given = {name: value for name, value in options.items() if name not in url.query}
    # Repeatable reads would lock the gaps between jobs, and claims would wait for each other. All
    # transactions are ended here: ending them once more would only find, and log, dead servers.
    return create_engine(
        url,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        connect_args=given,
        pool_reset_on_return=None,
    )
