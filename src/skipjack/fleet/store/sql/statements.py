"""Statements on rows, each in the way that its database takes them fastest.

Statements that run often are spelled once, by cached functions, with parameters instead of values:
half the time of a claim of one job was spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, LargeBinary, Select, Table, insert

from skipjack.fleet.store.sql.dialect import Row, Rows, dialect_of

T = TypeVar("T")

CHUNK = 10_000
"""Rows of one statement."""

_LONG = 4096
"""Characters from which on a text travels as a parameter of its own."""


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """The items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def found(connection: Connection, statement: Select[Any], **values: Any) -> Sequence[Any]:
    """The rows that a statement finds which is kept for good."""
    return dialect_of(connection).found(connection, statement, values)


def found_together(
    connection: Connection, *asked: tuple[Select[Any], Mapping[str, Any]]
) -> list[Sequence[Any]]:
    """What each of several such statements finds, with their values."""
    return dialect_of(connection).found_together(connection, *asked)


def among(
    connection: Connection, column: Column[Any], values: Iterable[Any]
) -> ColumnElement[bool]:
    """Whether the column is one of the values."""
    return dialect_of(connection).among(column, values)


def among_thousands(
    connection: Connection, column: Column[Any], values: Sequence[Any]
) -> ColumnElement[bool]:
    """Whether the column has one of these values, of which there may be thousands."""
    return dialect_of(connection).among_thousands(column, values)


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that have the same columns; a key that is there is an error."""
    if rows:
        dialect_of(connection).insert_rows(connection, table, rows)


def insert_long_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Likewise, for rows that may have long texts: these travel each as it is."""
    if all(type(value) is not str or len(value) <= _LONG for row in rows for value in row.values()):
        insert_rows(connection, table, rows)
    else:
        connection.execute(insert(table), [dict(row) for row in rows])


def update_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Change the other columns of the rows with these ids; all rows have the same columns."""
    if rows:
        dialect_of(connection).update_rows(connection, table, rows)


def update_and_insert(
    connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
) -> None:
    """`update_rows` of one table and `insert_rows` of another, together where that is possible."""
    if rows and lines:
        dialect_of(connection).update_and_insert(connection, table, rows, other, lines)
    else:
        update_rows(connection, table, rows)
        insert_rows(connection, other, lines)


def insert_new(connection: Connection, table: Table, rows: Iterable[Row]) -> int:
    """Insert rows that have the same columns, but not those whose key is there; how many were new.

    Transactions that insert in the order of the key never wait for each other in a circle.
    """
    dialect = dialect_of(connection)
    binary = any(isinstance(column.type, LargeBinary) for column in table.c)
    insert = dialect.insert_new_in_parameters if binary else dialect.insert_new
    return sum(insert(connection, table, chunk) for chunk in chunks(rows))


def insert_selected(
    connection: Connection, table: Table, columns: Sequence[str], rows: Select[Any]
) -> int:
    """Insert what a query finds, but not where the key is there; how many were new."""
    return dialect_of(connection).insert_selected(connection, table, columns, rows)
