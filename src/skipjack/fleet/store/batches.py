"""Rows of one transaction, written and found in a single statement each.

PostgreSQL gets the rows as one JSON text: the statement is the same for any number of them, so that
it is parsed and planned once. Arrays would do too, but psycopg spells texts in them character by
character: a job cost four times as much. The others take rows of parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Table,
    bindparam,
    func,
    insert,
    update,
)

Rows = Sequence[Mapping[str, Any]]

_LONG = 4096
"""Characters from which on a text is not spelled as JSON."""


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that have the same columns; a key that is there is an error."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        statement = _insert_from_json(table, tuple(rows[0]))
        connection.exec_driver_sql(statement, (_json(rows),))
    else:
        connection.execute(insert(table), [dict(row) for row in rows])


def insert_long_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Likewise, for rows that may have long texts: these travel each as it is."""
    if all(len(str(value)) <= _LONG for row in rows for value in row.values()):
        insert_rows(connection, table, rows)
    else:
        connection.execute(insert(table), [dict(row) for row in rows])


def update_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Change the other columns of the rows with these ids; all rows have the same columns."""
    if not rows:
        return
    names = tuple(rows[0])
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_update_from_json(table, names), (_json(rows), _ids(rows)))
    else:
        renamed = [{f"new_{name}": value for name, value in row.items()} for row in rows]
        connection.execute(_update_one(table, names), renamed)


def update_and_insert(
    connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
) -> None:
    """`update_rows` of one table and `insert_rows` of another, together where that is possible."""
    if not rows or not lines or connection.dialect.name != "postgresql":
        update_rows(connection, table, rows)
        insert_rows(connection, other, lines)
        return
    updating = _update_from_json(table, tuple(rows[0]))
    inserting = _insert_from_json(other, tuple(lines[0]))
    both = f"WITH updated AS ({updating}) {inserting}"
    connection.exec_driver_sql(both, (_json(rows), _ids(rows), _json(lines)))


def among(
    connection: Connection, column: Column[Any], values: Iterable[Any]
) -> ColumnElement[bool]:
    """Whether the column is one of the values."""
    listed = list(values)
    if connection.dialect.name != "postgresql":
        return column.in_(listed)
    from sqlalchemy.dialects import postgresql  # not loaded for other databases

    array = bindparam(None, listed, type_=postgresql.ARRAY(column.type), unique=True)
    return column == func.any(array)


def _ids(rows: Rows) -> list[int]:
    return [row["id"] for row in rows]


def _json(rows: Rows) -> str:
    return json.dumps(rows, allow_nan=False)


@cache
def _insert_from_json(table: Table, names: tuple[str, ...]) -> str:
    listed = ", ".join(map(_quoted, names))
    return f"INSERT INTO {table.name} ({listed}) SELECT * FROM {_records(table, names)}"


@cache
def _update_from_json(table: Table, names: tuple[str, ...]) -> str:
    changes = ", ".join(f"{_quoted(name)} = v.{_quoted(name)}" for name in names if name != "id")
    return (
        f"UPDATE {table.name} SET {changes} FROM {_records(table, names)} "
        # Said twice: else the planner, which cannot look into the JSON, reads the whole table.
        f"WHERE {table.name}.id = v.id AND {table.name}.id = ANY (%s::bigint[])"
    )


def _records(table: Table, names: tuple[str, ...]) -> str:
    from sqlalchemy.dialects import postgresql

    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = [table.c[name].type.compile(dialect) for name in names]
    columns = ", ".join(f"{_quoted(name)} {type}" for name, type in zip(names, types, strict=True))
    return f"json_to_recordset(%s::json) AS v ({columns})"


def _quoted(name: str) -> str:
    return f'"{name}"'


@cache
def _update_one(table: Table, names: tuple[str, ...]) -> Any:
    changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names if name != "id"}
    return update(table).where(table.c.id == bindparam("new_id")).values(changes)
