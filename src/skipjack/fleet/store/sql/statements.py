"""Statements on rows, each in the way that its database takes them fastest.

Statements that run often are spelled once, by cached functions, with parameters instead of values:
half the time of a claim of one job was spelling.

Rows of one transaction are written and found in a single statement each. PostgreSQL gets them as
one JSON text: the statement is the same for any number of them, so that it is parsed and planned
once. Arrays would do too, but psycopg spells texts in them character by character: a job cost four
times as much. MariaDB gets many rows as one JSON text too, and SQLite is called directly, without a
dictionary for every row.

Dialects are imported where they are used: a process has one database, and the other dialects take
a tenth of a second to load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
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
    insert,
    select,
    text,
    update,
)


def listed(dialect: str, column: Column[Any], name: str) -> ColumnElement[bool]:
    """Whether the column is one of the values of the parameter of this name, a list."""
    if dialect != "postgresql":
        return column.in_(bindparam(name, expanding=True))
    from sqlalchemy.dialects import postgresql  # not loaded for other databases

    return column == func.any(bindparam(name, type_=postgresql.ARRAY(column.type)))


def found(connection: Connection, statement: Select[Any], **values: Any) -> Sequence[Any]:
    """The rows that a statement finds which is kept for good."""
    if connection.dialect.name != "postgresql":
        return connection.execute(statement, values).all()
    text, constants = _spelled(statement, connection.dialect)
    return connection.exec_driver_sql(text, {**constants, **values}).all()


@lru_cache(maxsize=256)
def _spelled(statement: Select[Any], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    compiled = statement.compile(dialect=dialect)
    return str(compiled), dict(compiled.params)


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
