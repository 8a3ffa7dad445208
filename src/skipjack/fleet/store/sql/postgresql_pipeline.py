"""PostgreSQL's pipeline mode: statements that only write are sent without waiting.

`send` sends a statement, and `answered` waits for the answers to all sent statements. A transaction
waits for each read, and once for its COMMIT. There is no wait for BEGIN and for writes: their
errors are raised by the next wait. SQLAlchemy's own statements are waited for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

BARE = "skipjack_bare"
"""An execution option: each statement is its own transaction."""

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_WAITING = "skipjack_waiting"
"""An execution option of all statements except those that detect the server."""
_PIPELINE, _CONTEXT = "skipjack_pipeline", "skipjack_pipeline_context"


def pipelined(engine: Engine) -> None:
    """Put all connections of an engine in AUTOCOMMIT mode into pipeline mode."""
    engine.update_execution_options(**{_WAITING: True})

    @event.listens_for(engine, "close")
    def _(connection: Any, record: Any) -> None:
        import psycopg

        context = record.info.pop(_CONTEXT, None)
        if record.info.pop(_PIPELINE, None):
            with suppress(psycopg.Error):  # the server may be gone
                context.__exit__(None, None, None)

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        if not connection.get_execution_options().get(BARE):
            _enter(connection)
            send(connection, _BEGIN)

    @event.listens_for(engine, "commit")
    def _(connection: Connection) -> None:
        # The driver itself would omit it, because the answer to BEGIN was not read yet.
        if connection.get_execution_options().get(BARE):
            return
        try:
            connection.exec_driver_sql("COMMIT")
        except DBAPIError as error:
            connection.invalidate(error)  # it may still be in the failed transaction
            raise

    @event.listens_for(engine, "rollback")
    def _(connection: Connection) -> None:
        import psycopg

        if not connection.invalidated:
            with suppress(psycopg.Error):  # errors of statements that are rolled back
                _wait(connection)

    @event.listens_for(engine, "do_execute")
    def _(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        cursor.execute(statement, parameters)
        if context.execution_options.get(_WAITING):
            _wait(context.root_connection)
        return True

    @event.listens_for(engine, "do_executemany")
    def _(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        cursor.executemany(statement, parameters)
        _wait(context.root_connection)
        return True


def _enter(connection: Connection) -> None:
    """Enter pipeline mode, if the driver supports it, while the pool has the connection."""
    if _CONTEXT not in connection.info and connection.dialect.loaded_dbapi.Pipeline.is_supported():
        connection.info[_CONTEXT] = context = _driver(connection).pipeline()
        with _noticing(connection):
            connection.info[_PIPELINE] = context.__enter__()


def send(connection: Connection, statement: str, values: Any = None) -> Any:
    """Send a statement; returns the cursor that has its rows after `answered`."""
    from psycopg.rows import namedtuple_row

    with _noticing(connection):
        return _driver(connection).cursor(row_factory=namedtuple_row).execute(statement, values)


def answered(connection: Connection) -> None:
    """Wait for all sent statements; raises their first error."""
    with _noticing(connection):
        _wait(connection)


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _wait(connection: Connection) -> None:
    if pipeline := connection.info.get(_PIPELINE):
        pipeline.sync()


@contextmanager
def _noticing(connection: Connection) -> Iterator[None]:
    """Invalidate a broken connection, so that it does not return to the pool."""
    try:
        yield
    except connection.dialect.loaded_dbapi.Error as error:
        if _driver(connection).closed:
            connection.invalidate(error)
        raise
