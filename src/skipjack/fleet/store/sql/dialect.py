"""What differs between databases: one `Dialect` for each, and the list of those that are known.

The rest of the store asks `dialect_of` a connection and never looks at a database's name. What is
written here is standard SQL through SQLAlchemy; a dialect overrides what its database does in
another way or faster. A further database is a class of its own and a call of `register`.

A dialect imports its half of SQLAlchemy where it is used: a process has one database, and the other
dialects take a tenth of a second to load.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    insert,
    update,
)
from sqlalchemy import Dialect as Backend

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.store.sql.spelling import Spelling

if TYPE_CHECKING:
    from skipjack.settings import Settings

Row = Mapping[str, Any]
Rows = Sequence[Row]

READ_ONLY = "skipjack_reads_only"
"""An execution option: this transaction takes no write lock on the whole database."""


class Dialect(ABC):
    """How one database is reached, what its errors mean, and how it spells SQL.

    Objects have no state: one serves all connections of a process, from any thread.
    """

    name: ClassVar[str]
    """SQLAlchemy's name of it."""
    schemes: ClassVar[Mapping[str, str]]
    """The beginning of a URL, and what SQLAlchemy is told instead."""
    module: ClassVar[str]
    """The driver, as it is imported."""
    extra: ClassVar[str] = ""
    """The extra of Skipjack that installs the driver."""
    example: ClassVar[str]
    """A URL, for messages."""
    spelling: ClassVar[Spelling]
    """What views need."""
    now: ClassVar[str]
    """An expression: seconds since 1970 when the statement runs, with at least milliseconds."""
    streaming: ClassVar[Mapping[str, Any]] = {"isolation_level": "AUTOCOMMIT"}
    """Execution options for reading page by page while the reader takes its time."""
    file_name: ClassVar[str] = ""
    """Of a store that is a file: its name in the user directory. Empty for servers.

    A file is upgraded as soon as it is opened; the other users of a server are asked first.
    """

    # ---- the URL

    def checked(self, url: URL) -> URL:
        """The URL if it can be used; `UsageError` says what is wrong without its password."""
        if not url.database:
            raise UsageError(
                f"SKIPJACK_DB names no database: {self.for_people(url)}; add /name to it"
            )
        return url

    def for_people(self, url: URL) -> str:
        """The URL without what may be secret: its password, and options, which may hold one."""
        return url.set(password=None, query={}).render_as_string()

    def unknown_option(self, options: Mapping[str, Any]) -> str:
        """What is wrong with options for the driver, which the driver itself would not say."""
        return ""

    # ---- the engine

    @abstractmethod
    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        """An engine on this database; nothing is connected yet. A file may be `read_only`.

        Committed means on disk. Locks are waited for, not for ever. A process that was stopped in
        the middle of a transaction does not keep others out.
        """

    def check_place(self, url: URL, settings: Settings) -> None:  # noqa: B027 - servers have none
        """`StorageError` if there can be no database where the URL says."""

    def is_read_only(self, url: URL, settings: Settings) -> bool:
        """Whether the store is a file that this process can only read."""
        return False

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most need nothing
        """Called when a store is opened to write, again while others are in the way."""

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Engine]:
        """The engine that revisions of the schema are applied with."""
        yield engine

    def redefine(self, connection: Connection, table: str, old: str, new: str) -> bool:
        """Rebuild a table with `new` for `old` in its definition, where constraints cannot be
        changed otherwise; False where they can."""
        return False

    def check_references(self, connection: Connection) -> None:  # noqa: B027 - most are enforced
        """`StorageError` if an upgrade left a row without the one that it refers to."""

    def remark(self, engine: Engine) -> str:
        """A warning for those who open a store on this database; empty if there is none."""
        return ""

    # ---- errors, as the driver raises them

    @abstractmethod
    def is_away(self, cause: BaseException) -> bool:
        """Whether the server cannot be reached, as opposed to others being in the way."""

    @abstractmethod
    def is_contention(self, cause: BaseException) -> bool:
        """Whether others were in the way, so that the same transaction may succeed later."""

    @abstractmethod
    def is_collision(self, cause: BaseException) -> bool:
        """Whether another transaction inserted the same row: the next attempt sees it."""

    def explained(self, url: URL, cause: BaseException) -> StorageError | None:
        """An error that says more than the driver's own words; None for those."""
        return None

    # ---- locks

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """Hold the database's lock for changes of the schema until the transaction ends."""
        yield

    def in_order(self, query: Select[Any], table: Table, index: str) -> Select[Any]:
        """The query, made to read a table in the order of its index and not to sort it."""
        return query

    # ---- types of columns, in SQL; empty for what SQLAlchemy says

    row_id: ClassVar[str] = ""
    """Of a key that the database counts up."""
    long_text: ClassVar[str] = ""
    """Of a text of any length, compared byte by byte."""
    long_bytes: ClassVar[str] = ""

    def name_type(self, length: int) -> str:
        """Of a text of at most so many characters, compared byte by byte."""
        return ""

    # ---- statements

    def listed(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Whether the column is one of the values of the parameter of this name, a list."""
        return column.in_(bindparam(name, expanding=True))

    def among(self, column: Column[Any], values: Iterable[Any]) -> ColumnElement[bool]:
        """Whether the column is one of the values."""
        return column.in_(list(values))

    def among_thousands(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Whether the column has one of these values, of which there may be thousands."""
        return column.in_(values)

    def found(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Any]:
        """The rows that a statement finds which is kept for good."""
        return connection.execute(statement, values).all()

    def found_together(
        self, connection: Connection, *asked: tuple[Select[Any], Mapping[str, Any]]
    ) -> list[Sequence[Any]]:
        """What each of several such statements finds, waited for once where that is possible."""
        return [self.found(connection, statement, values) for statement, values in asked]

    def insert_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Insert rows that have the same columns; a key that is there is an error."""
        connection.execute(insert(table), [dict(row) for row in rows])

    def update_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Change the other columns of the rows with these ids; all rows have the same columns."""
        renamed = [{f"new_{name}": value for name, value in row.items()} for row in rows]
        connection.execute(_update_one(table, tuple(rows[0])), renamed)

    def update_and_insert(
        self, connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
    ) -> None:
        """`update_rows` of one table and `insert_rows` of another, together if that is faster."""
        self.update_rows(connection, table, rows)
        self.insert_rows(connection, other, lines)

    @abstractmethod
    def ignoring(self, table: Table) -> Any:
        """An INSERT that leaves out rows whose key is there."""

    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        """Insert rows with the same columns whose key is not there; how many were new."""
        return self.insert_new_in_parameters(connection, table, rows)

    def insert_new_in_parameters(self, connection: Connection, table: Table, rows: Rows) -> int:
        """Likewise, each value as it is: for bytes, which JSON does not hold."""
        done = connection.execute(
            self.ignoring(table),
            [*map(dict, rows)],
            execution_options={"preserve_rowcount": True},
        )
        return done.rowcount

    def insert_selected(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Any
    ) -> int:
        """Insert what a query finds, but not where the key is there; how many were new."""
        adding = self.ignoring(table).from_select(list(columns), rows)
        return connection.execute(adding, execution_options={"preserve_rowcount": True}).rowcount


@cache
def _update_one(table: Table, names: tuple[str, ...]) -> Any:
    changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names if name != "id"}
    return update(table).where(table.c.id == bindparam("new_id")).values(changes)


_known: dict[str, Dialect] = {}
"""By SQLAlchemy's name, in the order in which they were registered."""


def register(dialect: Dialect) -> None:
    """Make a database known: URLs with its schemes open stores on it from now on."""
    _known[dialect.name] = dialect


def dialects() -> tuple[Dialect, ...]:
    """All that are known, in the order in which they were registered."""
    return tuple(_known.values())


def dialect_of(on: Connection | Engine | Backend | URL) -> Dialect:
    """That of a connection, an engine, a dialect of SQLAlchemy's or a checked URL."""
    if isinstance(on, URL):
        return _known[on.get_backend_name()]
    return _known[on.name if isinstance(on, Backend) else on.dialect.name]


def engine_for(url: URL, *, read_only: bool = False) -> Engine:
    """An engine on this database; nothing is connected yet. A file may be `read_only`."""
    return dialect_of(url).engine(url, read_only=read_only)


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """The names that a function of a driver takes."""
    return frozenset(inspect.signature(function).parameters)


def require(dialect: Dialect, driver: str) -> None:
    """`UsageError` unless the driver can be imported."""
    try:
        import_module(dialect.module)
    except ImportError as error:
        raise UsageError(
            f"SKIPJACK_DB asks for {driver}, whose driver cannot be loaded ({error}); "
            f"run pip install 'skipjack[{dialect.extra}]'"
        ) from None
