"""Opening the store: finding the database, and creating, checking or upgrading its schema."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine

from skipjack.errors import StorageError
from skipjack.fleet.signature import fleet_key
from skipjack.fleet.store.schema import revisions
from skipjack.fleet.store.schema.migrations import REVISIONS
from skipjack.fleet.store.sql.dialect import dialect_of, engine_for
from skipjack.fleet.store.sql.transactions import RETRY_LIMIT_S, RetryPolicy
from skipjack.fleet.store.sql.urls import database_url, displayed_url
from skipjack.fleet.store.store import Store
from skipjack.settings import Settings, load_settings

_PATIENCE_AT_START_S = 30.0
"""Time to wait for others that create the same schema; a database that is down is an error."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def open_store(
    url: str | None = None,
    *,
    settings: Settings | None = None,
    patience_s: float = RETRY_LIMIT_S,
    on_wait: Callable[[str], None] = log.warning,
    give_up: Callable[[], bool] = lambda: False,
    to_read: bool = False,
) -> Store:
    """Open the store at `url`, else at SKIPJACK_DB, else in a file of the user directory.

    Tables are created in an empty database. A database of an older Skipjack is upgraded if it is a
    file, and refused on a server, which others use: see `upgrade`. A database of a newer Skipjack
    is refused. A database that is down is an error here. Once open, operations retry for
    `patience_s` seconds when it is unreachable, call `on_wait` once, and stop when `give_up`
    returns true. With `to_read`, the file may be in a read-only user directory.
    """
    settings = settings or load_settings()
    file = _file_to_read(url, settings) if to_read else None
    engine = engine_for(file, read_only=True) if file else _engine(url, settings)
    try:
        _prepare(engine, read_only=file is not None)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, lambda: fleet_key(settings), RetryPolicy(patience_s, on_wait, give_up))


def upgrade(url: str | None = None, *, settings: Settings | None = None) -> bool:
    """Upgrade a database that no other process uses; returns whether it was necessary."""
    engine = _engine(url, settings or load_settings())
    try:
        found = _ask(engine, _version)
        if found in (None, revisions.UNFINISHED, REVISIONS[-1]):
            return False
        _upgrade(engine)
        return True
    finally:
        engine.dispose()


def _upgrade(engine: Engine) -> None:
    with dialect_of(engine).upgrading(engine) as ready:
        _ask(ready, revisions.upgrade)


def _engine(url: str | None, settings: Settings) -> Engine:
    parsed = database_url(url, settings)
    dialect_of(parsed).check_place(parsed, settings)
    return engine_for(parsed)


def _file_to_read(url: str | None, settings: Settings) -> URL | None:
    """The URL of a store in a read-only user directory; None for any other."""
    parsed = database_url(url, settings)
    return parsed if dialect_of(parsed).is_read_only(parsed, settings) else None


def _prepare(engine: Engine, *, read_only: bool = False) -> None:
    dialect = dialect_of(engine)
    if not read_only:
        retries = RetryPolicy(_PATIENCE_AT_START_S, when_away=False)
        retries.retry(engine, lambda: dialect.prepare(engine))
    found = _ask(engine, _version, reading=True)
    if read_only and found != REVISIONS[-1]:
        raise StorageError(
            f"{displayed_url(engine.url)} is of another version of Skipjack, and its directory is "
            "read-only; copy it to a writable directory"
        )
    # The server's type is known after the first query.
    if not read_only and (remark := dialect.remark(engine)):
        log.warning("%s", remark)
    if found in (None, revisions.UNFINISHED):
        _ask(engine, revisions.create)
    elif found != REVISIONS[-1] and dialect.file_name:
        _upgrade(engine)
    elif found != REVISIONS[-1]:
        raise StorageError(
            f"{displayed_url(engine.url)} has a schema of revision {found}, this Skipjack needs "
            f"{REVISIONS[-1]}; wait until all coordinators have ended, then run "
            "skipjack store upgrade"
        )


def _version(connection: Connection) -> str | None:
    found = revisions.version(connection)
    if found is not None:
        revisions.check(connection, found)
    return found


def _ask(engine: Engine, work: Callable[[Connection], T], *, reading: bool = False) -> T:
    """Do work in a transaction; retries conflicts, but not an unreachable database."""
    retries = RetryPolicy(_PATIENCE_AT_START_S, when_away=False)
    return retries.transact(engine, work, reading=reading)
