"""Statements on rows, in the fastest form for each database.

Frequent statements are compiled once, by cached functions, with parameters instead of values:
compilation took half the time of a claim of one job.
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
"""Length above which a text is sent as a separate parameter."""


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """The items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def found(connection: Connection, statement: Select[Any], **values: Any) -> Sequence[Any]:
    """The rows of a cached statement."""
    return dialect_of(connection).found(connection, statement, values)


def found_together(
    connection: Connection, *asked: tuple[Select[Any], Mapping[str, Any]]
) -> list[Sequence[Any]]:
    """The rows of several cached statements with their values."""
    return dialect_of(connection).found_together(connection, *asked)


def among(
    connection: Connection, column: Column[Any], values: Iterable[Any]
) -> ColumnElement[bool]:
    """Condition that the column is one of the values."""
    return dialect_of(connection).among(column, values)


def among_thousands(
    connection: Connection, column: Column[Any], values: Sequence[Any]
) -> ColumnElement[bool]:
    """Condition that the column is one of the values, of which there may be thousands."""
    return dialect_of(connection).among_thousands(column, values)


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows with the same columns; an existing key is an error."""
    if rows:
        dialect_of(connection).insert_rows(connection, table, rows)


def insert_long_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """`insert_rows` for rows that may have long texts, which are sent as parameters."""
    if all(type(value) is not str or len(value) <= _LONG for row in rows for value in row.values()):
        insert_rows(connection, table, rows)
    else:
        connection.execute(insert(table), [dict(row) for row in rows])


def update_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Update rows by id; all have the same columns."""
    if rows:
        dialect_of(connection).update_rows(connection, table, rows)


def update_and_insert(
    connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
) -> None:
    """`update_rows` of one table and `insert_rows` of another, combined if possible."""
    if rows and lines:
        dialect_of(connection).update_and_insert(connection, table, rows, other, lines)
    else:
        update_rows(connection, table, rows)
        insert_rows(connection, other, lines)


def insert_new(connection: Connection, table: Table, rows: Iterable[Row]) -> int:
    """Insert rows with the same columns, without existing keys; returns how many were new.

    Insert in the order of the key, so that transactions do not deadlock.
    """
    dialect = dialect_of(connection)
    binary = any(isinstance(column.type, LargeBinary) for column in table.c)
    insert = dialect.insert_new_in_parameters if binary else dialect.insert_new
    return sum(insert(connection, table, chunk) for chunk in chunks(rows))


def insert_selected(
    connection: Connection, table: Table, columns: Sequence[str], rows: Select[Any]
) -> int:
    """Insert the rows of a query, without existing keys; returns how many were new."""
    return dialect_of(connection).insert_selected(connection, table, columns, rows)
