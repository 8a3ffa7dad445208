"""SQLite: a store in a file, for one machine or a shared file system."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Table,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    select,
)

from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.fleet.store.sql.dialect import READ_ONLY, Dialect, Rows, ViewSyntax
from skipjack.settings import expanded
from skipjack.storage import (
    can_create_in,
    check_journal,
    describe_damage,
    ensure_directory,
    is_damage,
    is_network_file_system,
    read_only_uri,
    storage_error,
)

if TYPE_CHECKING:
    from skipjack.settings import Settings

BUSY_S = 30.0
"""Time to wait for a lock."""
_IN_THE_WAY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _ViewSyntax(ViewSyntax):
    def time(self, seconds: str) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch')"

    def before_slash(self, text: str) -> str:
        return f"substr({text}, 1, instr({text}, '/') - 1)"

    def after_slash(self, text: str) -> str:
        return f"substr({text}, instr({text}, '/') + 1)"

    def joined(self, text: str) -> str:
        return f"group_concat(DISTINCT {text})"

    def member(self, json: str, name: str) -> str:
        return f"json_extract({json}, '$.{name}')"

    def inner(self, json: str, *names: str) -> str:
        return f"json_extract({json}, '$.{'.'.join(names)}')"

    sample: ClassVar = {
        "metric": "e.key",
        "unit": "json_extract(e.value, '$.unit')",
        "number": "s.key",
        "value": "CASE WHEN s.type <> 'text' THEN s.value END",
        "word": "CASE WHEN s.type = 'text' THEN s.value END",
    }

    def each_sample(self, metrics: str) -> str:
        return f"JOIN json_each({metrics}) e JOIN json_each(e.value, '$.samples') s"


class SQLiteDialect(Dialect):
    """A file. Writers take turns; readers and a writer do not wait for each other."""

    name = "sqlite"
    schemes: ClassVar = {"sqlite": "sqlite", "sqlite+pysqlite": "sqlite"}
    module = "sqlite3"
    example = "sqlite:///file"
    view_syntax = _ViewSyntax()
    now = "((julianday('now') - 2440587.5) * 86400.0)"
    streaming: ClassVar = {READ_ONLY: True}  # a long reader does not block writers
    file_name = "fleet.sqlite"
    row_id = "INTEGER"  # only a plain INTEGER key is generated

    def checked(self, url: URL) -> URL:
        if url.host or url.username or url.password or url.port:
            raise UsageError(
                f"SKIPJACK_DB has a host or a user, but SQLite is a file; write {self.example}, "
                "with three slashes"
            )
        if not url.database or url.database == ":memory:":
            raise UsageError(
                f"SKIPJACK_DB has no file name, but a store is a file; write {self.example}"
            )
        return url.set(database=str(expanded(url.database).absolute()), query={})

    def for_people(self, url: URL) -> str:
        return str(url.database)

    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_S}}
        if read_only:
            uri = read_only_uri(Path(str(url.database)))
            options = {"creator": lambda: sqlite3.connect(uri, BUSY_S, uri=True)}
        engine = create_engine(url, hide_parameters=True, **options)

        @event.listens_for(engine, "connect")
        def _(connection: Any, record: Any) -> None:
            # Python's own transactions begin too late, and are never IMMEDIATE.
            connection.isolation_level = None
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")

        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            reading = read_only or connection.get_execution_options().get(READ_ONLY, False)
            # BEGIN IMMEDIATE waits for the write lock; a reader that becomes a writer would fail.
            connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

        return engine

    def check_place(self, url: URL, settings: Settings) -> None:
        folder = Path(str(url.database)).parent
        if folder == settings.user_dir:
            ensure_directory(folder)
        elif not folder.is_dir():
            raise StorageError(
                f"the folder {folder} of the store does not exist; create it, or correct the URL"
            )
        if Path(str(url.database)).is_dir():
            raise StorageError(
                f"{url.database} is a directory, but a store is a file; add a file name to the URL"
            )
        check_journal(Path(str(url.database)))

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Engine]:
        """Without foreign keys, because tables with references could not be rebuilt."""
        without = self.engine(engine.url)

        @event.listens_for(without, "connect")
        def _(connection: Any, record: Any) -> None:
            connection.execute("PRAGMA foreign_keys = OFF")

        try:
            yield without
        finally:
            without.dispose()

    def redefine(self, connection: Connection, table: str, old: str, new: str) -> bool:
        made = "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND type = ? AND sql <> ''"
        (text,) = connection.exec_driver_sql(made, (table, "table")).scalars()
        indices = connection.exec_driver_sql(made, (table, "index")).scalars().all()
        if old not in text:
            raise StorageError(f"table {table} differs from its revision; it was not changed")
        rebuilt = f"{table}_rebuilt"
        text = text.replace(f"CREATE TABLE {table}", f"CREATE TABLE {rebuilt}", 1)
        connection.exec_driver_sql(text.replace(old, new, 1))
        connection.exec_driver_sql(f"INSERT INTO {rebuilt} SELECT * FROM {table}")
        connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql(f"ALTER TABLE {rebuilt} RENAME TO {table}")
        for index in indices:
            connection.exec_driver_sql(index)
        return True

    def check_references(self, connection: Connection) -> None:
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise StorageError(
                f"{self.for_people(connection.engine.url)} has a row in {broken[0]} without its "
                f"row in {broken[2]}; it was not changed"
            )

    def is_read_only(self, url: URL, settings: Settings) -> bool:
        folder = settings.user_dir
        if Path(str(url.database)).parent != folder:
            return False
        if not folder.is_dir() or can_create_in(folder):
            return False
        if not Path(str(url.database)).is_file():
            raise StorageError(f"there are no jobs: {folder} has no store and is read-only")
        return True

    def prepare(self, engine: Engine) -> None:
        """Use write-ahead logging if the file system supports it.

        If several processes do this at once to a new file, SQLite refuses some without waiting.
        """
        wanted = "delete" if is_network_file_system(Path(str(engine.url.database))) else "wal"
        # On the raw connection: SQLAlchemy would begin a transaction.
        with closing(engine.raw_connection()) as connection:
            connection.cursor().execute(f"PRAGMA journal_mode = {wanted}")

    def remark(self, engine: Engine) -> str:
        network = is_network_file_system(Path(str(engine.url.database)))
        if not network:
            return ""
        return (
            f"{engine.url.database} is on a network file system ({network}), where SQLite is "
            "unsafe from several hosts; set SKIPJACK_DB to a database server"
        )

    def is_away(self, cause: BaseException) -> bool:
        return False

    def is_contention(self, cause: BaseException) -> bool:
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _IN_THE_WAY

    def is_collision(self, cause: BaseException) -> bool:
        return False  # writers wait for each other, so it would be our error

    def explained(self, url: URL, cause: BaseException) -> StorageError | None:
        if is_damage(cause):
            return CorruptFileError(
                f"the store {url.database} is damaged ({describe_damage(cause)}); it was not "
                "changed: restore a backup, or move it away and load the jobs again"
            )
        if isinstance(cause, sqlite3.Error):
            return storage_error(cause, Path(str(url.database)))
        return None

    def whole(self, number: ColumnElement[float]) -> ColumnElement[int]:
        return cast(number, Integer)  # some builds have no floor()

    def among_thousands(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        listed = func.json_each(json.dumps(values)).table_valued("value")
        return column.in_(select(listed.c.value))

    def ignoring(self, table: Table) -> Any:
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table).on_conflict_do_nothing()

    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        """Calls the driver directly, without a dictionary for every row."""
        names = list(rows[0])
        adding = self.ignoring(table).values({name: bindparam(name) for name in names})
        compiled = adding.compile(dialect=connection.dialect)
        order = compiled.positiontup or names
        values = [tuple(row[name] for name in order) for row in rows]
        return connection.exec_driver_sql(str(compiled), values).rowcount
