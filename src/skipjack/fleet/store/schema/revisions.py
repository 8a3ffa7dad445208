"""The schema's version: creating an empty database, and bringing an older one up to date.

A fresh database is made from `tables` at once; an older one is led through `migrations`. A test
proves that both give the same. Whoever creates or upgrades holds a lock on the database, so that
any number of processes may start at once.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
)

from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.store.schema import views
from skipjack.fleet.store.schema.migrations import REVISIONS, VERSION_TABLE
from skipjack.fleet.store.schema.tables import metadata
from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.fleet.store.sql.urls import for_people

UNFINISHED = "unfinished"
"""The version of a schema that is being created: some databases cannot undo what a dead process
began."""

# As Alembic would make it, without importing Alembic.
_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def version(connection: Connection) -> str | None:
    """The revision that the database has; None if it is empty, refused if it is not ours."""
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        return connection.execute(select(_version.c.version_num)).scalar()
    others = sorted(set(inspector.get_table_names()) & set(metadata.tables))
    if others:
        raise StorageError(
            f"{for_people(connection.engine.url)} has a table {others[0]} that is not Skipjack's; "
            "it was left as it is, use a database of its own"
        )
    return None


def check(connection: Connection, found: str) -> None:
    """`NewerFormatError` if only a newer Skipjack knows this revision."""
    if found not in (*REVISIONS, UNFINISHED):
        raise NewerFormatError(
            f"{for_people(connection.engine.url)} has a schema of revision {found}, this Skipjack "
            f"knows those up to {REVISIONS[-1]}; it was left as it is, use a newer Skipjack"
        )


def create(connection: Connection) -> None:
    """Make all tables and views, unless another process just did."""
    # They are made from the definitions of the ledger, which few programs load.
    from skipjack.fleet.store.schema.ledger_tables import TABLES

    assert set(TABLES.values()) <= set(metadata.tables.values())
    with dialect_of(connection).alone(connection):
        if version(connection) in (None, UNFINISHED):
            _version.create(connection, checkfirst=True)
            _stamp(connection, UNFINISHED)
            metadata.create_all(connection)
            views.create(connection)
            _stamp(connection, REVISIONS[-1])


def upgrade(connection: Connection, target: str = REVISIONS[-1]) -> None:
    """Apply the revisions that are missing, and make the views anew."""
    with dialect_of(connection).alone(connection):
        views.drop(connection)
        _run_alembic(connection, target)
        dialect_of(connection).check_references(connection)
        views.create(connection)


def _stamp(connection: Connection, revision: str) -> None:
    connection.execute(_version.delete())
    connection.execute(_version.insert().values(version_num=revision))


def _run_alembic(connection: Connection, target: str) -> None:
    # Only an upgrade needs it, and it takes a tenth of a second to import.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "skipjack.fleet.store.schema:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, target)
