"""Opening the store: find the database, create or check its schema, and complain at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine

from skipjack.errors import StorageError
from skipjack.fleet.seal import fleet_key
from skipjack.fleet.store.schema import revisions
from skipjack.fleet.store.schema.migrations import REVISIONS
from skipjack.fleet.store.sql.dialect import dialect_of, engine_for
from skipjack.fleet.store.sql.retrying import PATIENCE_S, Patience
from skipjack.fleet.store.sql.urls import database_url, for_people
from skipjack.fleet.store.store import Store
from skipjack.settings import Settings, load_settings

_PATIENCE_AT_START_S = 30.0
"""For others who create the same schema; a database that is down is not waited for at all."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def open_store(
    url: str | None = None,
    *,
    settings: Settings | None = None,
    patience_s: float = PATIENCE_S,
    on_wait: Callable[[str], None] = log.warning,
    give_up: Callable[[], bool] = lambda: False,
    to_read: bool = False,
) -> Store:
    """The store at `url`, otherwise at SKIPJACK_DB, otherwise in a file of the user directory.

    An empty database gets its tables. One of an older Skipjack is upgraded if it is a file, and
    refused if it is a server's, which others use: see `upgrade`. One of a newer Skipjack is
    refused. A database that is down is an error here; once open, it is waited for `patience_s`
    seconds, and `on_wait` is told once each time; `give_up` ends the waiting. One that is opened
    only `to_read` may be in a user directory that is read-only.
    """
    settings = settings or load_settings()
    file = _file_to_read(url, settings) if to_read else None
    engine = engine_for(file, read_only=True) if file else _engine(url, settings)
    try:
        _prepare(engine, read_only=file is not None)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, lambda: fleet_key(settings), Patience(patience_s, on_wait, give_up))


def upgrade(url: str | None = None, *, settings: Settings | None = None) -> bool:
    """Bring a database up to date while nobody uses it; whether there was anything to do."""
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
    """The store in a user directory that is read-only; None for any other."""
    parsed = database_url(url, settings)
    return parsed if dialect_of(parsed).is_read_only(parsed, settings) else None


def _prepare(engine: Engine, *, read_only: bool = False) -> None:
    dialect = dialect_of(engine)
    if not read_only:
        patience = Patience(_PATIENCE_AT_START_S, when_away=False)
        patience.insist(engine, lambda: dialect.prepare(engine))
    found = _ask(engine, _version, reading=True)
    if read_only and found != REVISIONS[-1]:
        raise StorageError(
            f"{for_people(engine.url)} is of another version of Skipjack, and its directory is "
            "read-only; copy it to a directory that you can write to"
        )
    # Once a server was asked something, it said what it is.
    if not read_only and (remark := dialect.remark(engine)):
        log.warning("%s", remark)
    if found in (None, revisions.UNFINISHED):
        _ask(engine, revisions.create)
    elif found != REVISIONS[-1] and dialect.file_name:
        _upgrade(engine)
    elif found != REVISIONS[-1]:
        raise StorageError(
            f"{for_people(engine.url)} has a schema of revision {found}, this Skipjack needs "
            f"{REVISIONS[-1]}; let all coordinators end, then run "
            "skipjack store upgrade"
        )


def _version(connection: Connection) -> str | None:
    found = revisions.version(connection)
    if found is not None:
        revisions.check(connection, found)
    return found


def _ask(engine: Engine, work: Callable[[Connection], T], *, reading: bool = False) -> T:
    """Do it in a transaction; others may be in the way for a moment, a database must be there."""
    patience = Patience(_PATIENCE_AT_START_S, when_away=False)
    return patience.transact(engine, work, reading=reading)
