"""The schema's version: creating the schema, and upgrading an older one.

A new schema is created from `tables`; an older one is upgraded by `migrations`. A test checks that
both are equal. Both hold a lock on the database, so that any number of processes may start at once.
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
from skipjack.fleet.store.sql.urls import displayed_url

UNFINISHED = "unfinished"
"""The version of a schema that is being created: some databases cannot roll it back after a
crash."""

# As Alembic would create it, without importing Alembic.
_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def version(connection: Connection) -> str | None:
    """The revision of the database; None if it is empty, an error if it is not Skipjack's."""
    # One query: between two, another process may create all tables.
    names = set(inspect(connection).get_table_names())
    if VERSION_TABLE in names:
        return connection.execute(select(_version.c.version_num)).scalar()
    others = sorted(names & set(metadata.tables))
    if others:
        raise StorageError(
            f"{displayed_url(connection.engine.url)} has a table {others[0]} that is not "
            "Skipjack's; it was not changed; use a separate database"
        )
    return None


def check(connection: Connection, found: str) -> None:
    """`NewerFormatError` if this Skipjack does not know the revision."""
    if found not in (*REVISIONS, UNFINISHED):
        raise NewerFormatError(
            f"{displayed_url(connection.engine.url)} has a schema of revision {found}, this "
            f"Skipjack knows revisions up to {REVISIONS[-1]}; it was not changed; use a newer "
            "Skipjack"
        )


def create(connection: Connection) -> None:
    """Create all tables and views, unless another process just did."""
    # These tables need the definitions of the ledger, which few programs load.
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
    """Apply missing revisions, and create the views again."""
    with dialect_of(connection).alone(connection):
        views.drop(connection)
        _run_alembic(connection, target)
        dialect_of(connection).check_references(connection)
        views.create(connection)


def _stamp(connection: Connection, revision: str) -> None:
    connection.execute(_version.delete())
    connection.execute(_version.insert().values(version_num=revision))


def _run_alembic(connection: Connection, target: str) -> None:
    # Only upgrades need Alembic, whose import takes a tenth of a second.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "skipjack.fleet.store.schema:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, target)
