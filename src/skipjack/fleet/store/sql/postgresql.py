"""PostgreSQL, with psycopg.

Rows are sent as one JSON text: the statement is the same for any number of rows, so that it is
parsed and planned once. Arrays would work too, but psycopg writes their texts character by
character: a job cost four times as much.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, ClassVar

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy import Dialect as Backend

from skipjack.fleet.store.sql.dialect import Dialect, Rows, ViewSyntax
from skipjack.fleet.store.sql.postgresql_pipeline import BARE, answered, pipelined, send

_LOCK_WAIT_S = 30
_IDLE_S = 15
_CONNECT_S = 10
_SILENT_S = 300
"""Time without an answer after which a server counts as unreachable."""
_SCHEMA_LOCK = 0x536B6A6B

# lock_not_available, serialization_failure, deadlock_detected, too_many_connections, shutdowns,
# a server that starts or recovers, an idle transaction: see appendix A of the manual.
_PASSING = ("40", "55P03", "53300", "57P0", "08", "25P03")
_AWAY = ("53300", "57P0", "08")
_UNIQUE = "23505"

# Results are long texts, which the default method compresses slowly. LZ4 is missing in servers
# before 14 and in some builds. Prepared statements are planned once: otherwise the server would
# plan them for each list of ids, which took a fifth of its time.
_SESSION = (
    "SELECT set_config(name, 'lz4', false) FROM pg_settings "
    "WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals) "
    "UNION ALL SELECT set_config(name, 'force_generic_plan', false) FROM pg_settings "
    "WHERE name = 'plan_cache_mode'"
)


class _ViewSyntax(ViewSyntax):
    def time(self, seconds: str) -> str:
        return f"to_timestamp({seconds})"

    def before_slash(self, text: str) -> str:
        return f"split_part({text}, '/', 1)"

    def after_slash(self, text: str) -> str:
        return f"split_part({text}, '/', 2)"

    def joined(self, text: str) -> str:
        return f"string_agg(DISTINCT {text}, ',' ORDER BY {text})"

    def member(self, json: str, name: str) -> str:
        return f"CAST({json} AS json) ->> '{name}'"

    def inner(self, json: str, *names: str) -> str:
        return f"CAST({json} AS json) #>> '{{{','.join(names)}}}'"

    sample: ClassVar = {
        "metric": "e.name",
        "unit": "e.value ->> 'unit'",
        "number": "CAST(s.place AS integer) - 1",
        "value": "CASE WHEN json_typeof(s.value) = 'number' "
        "THEN CAST(s.value #>> '{}' AS double precision) END",
        "word": "CASE WHEN json_typeof(s.value) = 'string' THEN s.value #>> '{}' END",
    }

    def each_sample(self, metrics: str) -> str:
        return (
            f"CROSS JOIN LATERAL json_each(CAST({metrics} AS json)) AS e (name, value) "
            "CROSS JOIN LATERAL json_array_elements(e.value -> 'samples') "
            "WITH ORDINALITY AS s (value, place)"
        )


class PostgreSQLDialect(Dialect):
    """A PostgreSQL server; jobs are claimed with SKIP LOCKED."""

    name = "postgresql"
    schemes: ClassVar = {
        "postgresql+psycopg": "postgresql+psycopg",
        "postgresql": "postgresql+psycopg",
    }
    module = "psycopg"
    extra = "postgresql"
    example = "postgresql+psycopg://user@host/name"
    view_syntax = _ViewSyntax()
    streaming: ClassVar = {BARE: True}
    # now() is the start of the transaction, which may have waited for locks since.
    now = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        options = {
            "connect_timeout": _CONNECT_S,
            "application_name": "skipjack",
            "keepalives_idle": 30,
            "tcp_user_timeout": 1000 * _SILENT_S,
            "options": f"-c lock_timeout={_LOCK_WAIT_S}s -c timezone=UTC "
            f"-c idle_in_transaction_session_timeout={_IDLE_S}s",
        }
        given = {name: value for name, value in options.items() if name not in url.query}
        # `postgresql_pipeline` begins and ends all transactions with statements.
        engine = create_engine(
            url,
            hide_parameters=True,
            isolation_level="AUTOCOMMIT",
            connect_args=given,
            pool_reset_on_return=None,
        )

        @event.listens_for(engine, "connect")
        def _(connection: Any, record: Any) -> None:
            connection.execute(_SESSION)

        pipelined(engine)
        return engine

    def is_away(self, cause: BaseException) -> bool:
        if not _is_drivers(cause):
            return False
        state = getattr(cause, "sqlstate", None)
        if state is None:  # errors of the client: refused, reset, timed out
            names = ("OperationalError", "InterfaceError", "ConnectionTimeout")
            return type(cause).__name__ in names
        return str(state).startswith(_AWAY)

    def is_contention(self, cause: BaseException) -> bool:
        state = getattr(cause, "sqlstate", None)
        return _is_drivers(cause) and str(state or "").startswith(_PASSING)

    def is_collision(self, cause: BaseException) -> bool:
        return getattr(cause, "sqlstate", None) == _UNIQUE

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        locking = text("SELECT pg_advisory_xact_lock(:number)")
        connection.execute(locking, {"number": _SCHEMA_LOCK})
        yield

    def listed(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        from sqlalchemy.dialects import postgresql

        return column == func.any(bindparam(name, type_=postgresql.ARRAY(column.type)))

    def among(self, column: Column[Any], values: Iterable[Any]) -> ColumnElement[bool]:
        from sqlalchemy.dialects import postgresql

        array = bindparam(None, list(values), type_=postgresql.ARRAY(column.type), unique=True)
        return column == func.any(array)

    def among_thousands(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        from sqlalchemy.dialects import postgresql

        given = bindparam(None, [*values], type_=postgresql.JSON)
        listed = func.json_array_elements_text(given).table_valued("value")
        return column.in_(select(cast(listed.c.value, column.type)))

    def found(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Any]:
        (rows,) = self.found_together(connection, (statement, values))
        return rows

    def found_together(
        self, connection: Connection, *asked: tuple[Select[Any], Mapping[str, Any]]
    ) -> list[Sequence[Any]]:
        cursors = []
        for statement, values in asked:
            spelled, constants = _spelled(statement, connection.dialect)
            cursors.append(send(connection, spelled, {**constants, **values}))
        answered(connection)
        return [cursor.fetchall() for cursor in cursors]

    def insert_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        send(connection, _insert_from_json(table, tuple(rows[0])), (_json(rows),))

    def update_rows(self, connection: Connection, table: Table, rows: Rows) -> None:
        send(connection, _update_from_json(table, tuple(rows[0])), (_json(rows), _ids(rows)))

    def update_and_insert(
        self, connection: Connection, table: Table, rows: Rows, other: Table, lines: Rows
    ) -> None:
        updating = _update_from_json(table, tuple(rows[0]))
        inserting = _insert_from_json(other, tuple(lines[0]))
        both = f"WITH updated AS ({updating}) {inserting}"
        send(connection, both, (_json(rows), _ids(rows), _json(lines)))

    def ignoring(self, table: Table) -> Any:
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()

    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        from sqlalchemy.dialects import postgresql

        columns = [table.c[name] for name in rows[0]]
        given = bindparam(None, [*map(dict, rows)], type_=postgresql.JSON)
        record = func.json_to_recordset(given).table_valued(
            *(Column(column.name, column.type) for column in columns)
        )
        found = select(*record.render_derived(with_types=True).c)
        return self.insert_selected(connection, table, list(rows[0]), found)


def _is_drivers(cause: BaseException) -> bool:
    return type(cause).__module__.partition(".")[0] == "psycopg"


@lru_cache(maxsize=256)
def _spelled(statement: Select[Any], backend: Backend) -> tuple[str, dict[str, Any]]:
    compiled = statement.compile(dialect=backend)
    return str(compiled), dict(compiled.params)


def _ids(rows: Rows) -> str:
    """An array of ids as text, which is faster than the driver's conversion."""
    return f"{{{','.join(str(row['id']) for row in rows)}}}"


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
        # Redundant, but the planner cannot look into the JSON, and would read the whole table.
        f"WHERE {table.name}.id = v.id AND {table.name}.id = ANY (%s::bigint[])"
    )


def _records(table: Table, names: tuple[str, ...]) -> str:
    from sqlalchemy.dialects import postgresql

    backend: Backend = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = [table.c[name].type.compile(backend) for name in names]
    columns = ", ".join(f"{_quoted(name)} {type}" for name, type in zip(names, types, strict=True))
    return f"json_to_recordset(%s::json) AS v ({columns})"


def _quoted(name: str) -> str:
    return f'"{name}"'
