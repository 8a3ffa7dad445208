"""What differs between databases: one `Dialect` for each, and the list of those that are known."""

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
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    cast,
    func,
    insert,
    update,
)
from sqlalchemy import Dialect as Backend

from skipjack.errors import StorageError, UsageError

if TYPE_CHECKING:
    from skipjack.settings import Settings


# SQL expressions of a database for views: JSON, times, parts of a text.


class ViewSyntax(ABC):
    """The SQL expressions of one database."""

    @abstractmethod
    def time(self, seconds: str) -> str:
        """Seconds since 1970 as a timestamp."""

    @abstractmethod
    def before_slash(self, text: str) -> str:
        """The text before the first slash."""

    @abstractmethod
    def after_slash(self, text: str) -> str:
        """The text after the first slash."""

    @abstractmethod
    def joined(self, text: str) -> str:
        """The distinct texts of a group, joined with commas in any order; NULL for none."""

    @abstractmethod
    def member(self, json: str, name: str) -> str:
        """A member of a JSON object as text; NULL if there is none."""

    @abstractmethod
    def inner(self, json: str, *names: str) -> str:
        """The value at a path of names inside nested JSON objects, as JSON."""

    sample: ClassVar[Mapping[str, str]]
    """Expressions for the samples of `each_sample`: ``metric``, ``unit``, the ``number`` in the
    block, from 0, and the ``value`` or else the ``word``."""

    @abstractmethod
    def each_sample(self, metrics: str) -> str:
        """A join with each sample of a ledger's metrics."""

    def integer(self, text: str) -> str:
        """A text as an integer."""
        return f"CAST({text} AS integer)"

    def number(self, text: str) -> str:
        """A text as a floating-point number."""
        return f"CAST({text} AS double precision)"


# Differences between databases: one `Dialect` for each, and the registry of dialects.
#
# The rest of the store calls `dialect_of` a connection and never compares names of databases. The
# methods here use standard SQL through SQLAlchemy; a dialect overrides what its database does
# differently or faster. To support another database, write a subclass and call `register`.
#
# A dialect imports its part of SQLAlchemy where it is used: a process has one database, and the
# other dialects take a tenth of a second to load.

Row = Mapping[str, Any]
Rows = Sequence[Row]

READ_ONLY = "skipjack_reads_only"
"""An execution option: this transaction takes no write lock on the whole database."""


class Dialect(ABC):
    """Connections to one database, the meaning of its errors, and its SQL.

    Objects are stateless: one serves all connections of a process, in any thread.
    """

    name: ClassVar[str]
    """SQLAlchemy's name of the database."""
    schemes: ClassVar[Mapping[str, str]]
    """Schemes of URLs, and the scheme for SQLAlchemy of each."""
    module: ClassVar[str]
    """Module name of the driver."""
    extra: ClassVar[str] = ""
    """Skipjack's extra that installs the driver."""
    example: ClassVar[str]
    """An example of a URL, for messages."""
    view_syntax: ClassVar[ViewSyntax]
    """SQL expressions for views."""
    now: ClassVar[str]
    """An expression: seconds since 1970 when the statement runs, at least to the millisecond."""
    streaming: ClassVar[Mapping[str, Any]] = {"isolation_level": "AUTOCOMMIT"}
    """Execution options for slow iterations over pages."""
    file_name: ClassVar[str] = ""
    """The name of the store in the user directory, for file databases; empty for servers.

    A file is upgraded when it is opened; a server only by a command.
    """

    # ---- the URL

    def checked(self, url: URL) -> URL:
        """The checked URL; a `UsageError` does not contain its password."""
        if not url.database:
            raise UsageError(
                f"SKIPJACK_DB has no database name: {self.for_people(url)}; add /name to it"
            )
        return url

    def for_people(self, url: URL) -> str:
        """The URL for display, without its password and its options, which may be secret."""
        return url.set(password=None, query={}).render_as_string()

    def unknown_option(self, options: Mapping[str, Any]) -> str:
        """An error in options for the driver that the driver would not report; empty if none."""
        return ""

    # ---- the engine

    @abstractmethod
    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        """Create an engine, without connecting. A file may be opened `read_only`.

        A commit is durable. Waits for locks have a timeout. A process that is stopped during a
        transaction does not block others forever.
        """

    def check_place(self, url: URL, settings: Settings) -> None:  # noqa: B027 - servers have none
        """`StorageError` if there can be no database at the URL's path."""

    def is_read_only(self, url: URL, settings: Settings) -> bool:
        """Whether the store is a file that this process can only read."""
        return False

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most need nothing
        """Called when a store is opened for writing, and retried on conflicts."""

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Engine]:
        """The engine with which revisions of the schema are applied."""
        yield engine

    def redefine(self, connection: Connection, table: str, old: str, new: str) -> bool:
        """Rebuild a table with `new` instead of `old` in its definition, if the database cannot
        change constraints; returns False if it can."""
        return False

    def check_references(self, connection: Connection) -> None:  # noqa: B027 - most are enforced
        """`StorageError` if an upgrade left a reference to a missing row."""

    def remark(self, engine: Engine) -> str:
        """A warning when a store on this database is opened; empty if there is none."""
        return ""

    # ---- errors, as the driver raises them

    @abstractmethod
    def is_away(self, cause: BaseException) -> bool:
        """Whether the server cannot be reached, in contrast to a conflict."""

    @abstractmethod
    def is_contention(self, cause: BaseException) -> bool:
        """Whether the transaction conflicted with others, and may succeed later."""

    @abstractmethod
    def is_collision(self, cause: BaseException) -> bool:
        """Whether another transaction inserted the same row; the next attempt sees it."""

    def explained(self, url: URL, cause: BaseException) -> StorageError | None:
        """A better error than the driver's message; None to use that."""
        return None

    # ---- locks

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """Hold the database's lock for schema changes until the transaction ends."""
        yield

    def in_order(self, query: Select[Any], table: Table, index: str) -> Select[Any]:
        """The query with a hint to read a table in the order of its index instead of sorting."""
        return query

    # ---- types of columns in SQL; empty for SQLAlchemy's types

    row_id: ClassVar[str] = ""
    """Type of a generated key."""
    long_text: ClassVar[str] = ""
    """Type of a text of any length, compared byte by byte."""
    long_bytes: ClassVar[str] = ""

    def name_type(self, length: int) -> str:
        """Type of a text of at most `length` characters, compared byte by byte."""
        return ""

    # ---- statements

    def listed(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Condition that the column is in the list parameter with this name."""
        return column.in_(bindparam(name, expanding=True))

    def among(self, column: Column[Any], values: Iterable[Any]) -> ColumnElement[bool]:
        """Condition that the column is one of the values."""
        return column.in_(list(values))

    def whole(self, number: ColumnElement[float]) -> ColumnElement[int]:
        """The largest integer that is not above a number of at least 0."""
        return cast(func.floor(number), BigInteger)

    def among_thousands(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Condition that the column is one of the values, of which there may be thousands."""
        return column.in_(values)

    def found(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Any]:
        """The rows of a cached statement."""
        return connection.execute(statement, values).all()

    def found_together(
        self, connection: Connection, *asked: tuple[Select[Any], Mapping[str, Any]]
    ) -> list[Sequence[Any]]:
        """The rows of several cached statements, with a single wait if possible."""
        return [self.found(connection, statement, values) for statement, values in asked]

    def insert_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Insert rows with the same columns; an existing key is an error."""
        connection.execute(insert(table), [dict(row) for row in rows])

    def update_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Update rows by id; all have the same columns."""
        renamed = [{f"new_{name}": value for name, value in row.items()} for row in rows]
        connection.execute(_update_one(table, tuple(rows[0])), renamed)

    def update_and_insert(
        self, connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
    ) -> None:
        """`update_rows` of one table and `insert_rows` of another, combined if that is faster."""
        self.update_rows(connection, table, rows)
        self.insert_rows(connection, other, lines)

    @abstractmethod
    def ignoring(self, table: Table) -> Any:
        """An INSERT that skips rows with existing keys."""

    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        """Insert rows with the same columns, without existing keys; returns how many were new."""
        return self.insert_new_in_parameters(connection, table, rows)

    def insert_new_in_parameters(self, connection: Connection, table: Table, rows: Rows) -> int:
        """`insert_new` with each value as a parameter: for bytes, which JSON cannot contain."""
        done = connection.execute(
            self.ignoring(table),
            [*map(dict, rows)],
            execution_options={"preserve_rowcount": True},
        )
        return done.rowcount

    def insert_selected(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Any
    ) -> int:
        """Insert the rows of a query, without existing keys; returns how many were new."""
        adding = self.ignoring(table).from_select(list(columns), rows)
        return connection.execute(adding, execution_options={"preserve_rowcount": True}).rowcount


@cache
def _update_one(table: Table, names: tuple[str, ...]) -> Any:
    changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names if name != "id"}
    return update(table).where(table.c.id == bindparam("new_id")).values(changes)


_known: dict[str, Dialect] = {}
"""Dialects by SQLAlchemy's name, in the order of registration."""


def register(dialect: Dialect) -> None:
    """Register a dialect: URLs with its schemes then open stores on its database."""
    _known[dialect.name] = dialect


def dialects() -> tuple[Dialect, ...]:
    """All registered dialects, in the order of registration."""
    return tuple(_known.values())


def dialect_of(on: Connection | Engine | Backend | URL) -> Dialect:
    """The dialect of a connection, an engine, a dialect of SQLAlchemy or a checked URL."""
    if isinstance(on, URL):
        return _known[on.get_backend_name()]
    return _known[on.name if isinstance(on, Backend) else on.dialect.name]


def engine_for(url: URL, *, read_only: bool = False) -> Engine:
    """Create an engine for a URL, without connecting. A file may be opened `read_only`."""
    return dialect_of(url).engine(url, read_only=read_only)


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters."""
    return frozenset(inspect.signature(function).parameters)


def require(dialect: Dialect, driver: str) -> None:
    """`UsageError` unless the driver can be imported."""
    try:
        import_module(dialect.module)
    except ImportError as error:
        raise UsageError(
            f"SKIPJACK_DB needs {driver}, whose driver cannot be loaded ({error}); "
            f"run pip install 'skipjack[{dialect.extra}]'"
        ) from None
