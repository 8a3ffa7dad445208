"""Many rows at once, in the way that each database takes them fastest.

PostgreSQL and MariaDB take a chunk of rows as one JSON text, which spares the driver a parameter
for every value. SQLite is called directly, without a dictionary for every row.

Dialects are imported where they are used: a process has one database, and the other dialects take
a tenth of a second to load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Insert,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    bindparam,
    cast,
    func,
    select,
    text,
)

T = TypeVar("T")
Row = Mapping[str, Any]

CHUNK = 10_000
"""Rows of one statement."""


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """The items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def insert_new(connection: Connection, table: Table, rows: Iterable[Row]) -> int:
    """Insert rows that have the same columns, but not those whose key is there; how many were new.

    Who inserts in the order of the key never waits in a circle with others who do so too.
    """
    binary = any(isinstance(column.type, LargeBinary) for column in table.c)
    insert = _in_parameters if binary else _INSERTS[connection.dialect.name]
    return sum(insert(connection, table, chunk) for chunk in chunks(rows))


def insert_selected(
    connection: Connection, table: Table, columns: Sequence[str], rows: Select[Any]
) -> int:
    """Insert what a query finds, but not where the key is there; how many were new."""
    adding = _ignoring(connection, table).from_select(list(columns), rows)
    return _count(connection, adding)


def among_thousands(
    connection: Connection, column: Column[Any], values: Sequence[Any]
) -> ColumnElement[bool]:
    """Whether the column has one of these values, of which there may be thousands."""
    if connection.dialect.name == "sqlite":
        listed = func.json_each(json.dumps(values)).table_valued("value")
        return column.in_(select(listed.c.value))
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        given = bindparam(None, [*values], type_=postgresql.JSON)
        listed = func.json_array_elements_text(given).table_valued("value")
        return column.in_(select(cast(listed.c.value, column.type)))
    return column.in_(values)


def _ignoring(connection: Connection, table: Table) -> Any:
    dialect = connection.dialect.name
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table).on_conflict_do_nothing()
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import mysql

    return mysql.insert(table).prefix_with("IGNORE")


def _count(connection: Connection, adding: Insert) -> int:
    return connection.execute(adding, execution_options={"preserve_rowcount": True}).rowcount


def _in_parameters(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """For bytes, which JSON does not hold."""
    options = {"preserve_rowcount": True}
    adding = _ignoring(connection, table)
    return connection.execute(adding, [*map(dict, rows)], execution_options=options).rowcount


def _in_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    names = list(rows[0])
    adding = _ignoring(connection, table).values({name: bindparam(name) for name in names})
    compiled = adding.compile(dialect=connection.dialect)
    order = compiled.positiontup or names
    values = [tuple(row[name] for name in order) for row in rows]
    return connection.exec_driver_sql(str(compiled), values).rowcount


def _in_records(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """As PostgreSQL reads JSON."""
    from sqlalchemy.dialects import postgresql

    columns = [table.c[name] for name in rows[0]]
    given = bindparam(None, [*map(dict, rows)], type_=postgresql.JSON)
    record = func.json_to_recordset(given).table_valued(
        *(Column(column.name, column.type) for column in columns)
    )
    found = select(*record.render_derived(with_types=True).c)
    return insert_selected(connection, table, list(rows[0]), found)


def _in_json_table(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """As MariaDB reads JSON."""
    columns = [table.c[name] for name in rows[0]]
    typed = ", ".join(f"`{one.name}` {_plain(one)} PATH '$.{one.name}'" for one in columns)
    found = text(f"SELECT * FROM JSON_TABLE(:given, '$[*]' COLUMNS ({typed})) AS given")
    query = found.bindparams(given=json.dumps([*map(dict, rows)])).columns(
        *(Column(column.name, column.type) for column in columns)
    )
    adding = _ignoring(connection, table).from_select(list(rows[0]), query)
    return _count(connection, adding)


# Otherwise the database's own character set applies, and what it lacks becomes a question mark.
_ALL_OF_UNICODE = "CHARACTER SET utf8mb4"
_PLAIN = (
    (Boolean, "boolean"),
    (Double, "double"),
    (Integer, "bigint"),
    (Text, f"longtext {_ALL_OF_UNICODE}"),
)


def _plain(column: Column[Any]) -> str:
    """The type without its collation, which the table's own column has."""
    for kind, name in _PLAIN:
        if isinstance(column.type, kind):
            return name
    assert isinstance(column.type, String)
    return f"varchar({column.type.length}) {_ALL_OF_UNICODE}"


_INSERTS: Mapping[str, Callable[[Connection, Table, Sequence[Row]], int]] = {
    "sqlite": _in_rows,
    "postgresql": _in_records,
    "mysql": _in_json_table,
    "mariadb": _in_json_table,
}
