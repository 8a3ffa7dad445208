"""MariaDB, with PyMySQL; MySQL works if it behaves the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Double,
    Engine,
    Integer,
    Select,
    String,
    Table,
    Text,
    create_engine,
    text,
)

from skipjack.errors import StorageError
from skipjack.fleet.store.sql.dialect import Dialect, Rows, ViewSyntax, parameters_of

_LOCK_WAIT_S = 30
_SCHEMA_LOCK_WAIT_S = 120
_IDLE_S = 15
_CONNECT_S = 10
_SILENT_S = 300
"""Time without an answer after which a server counts as unreachable."""

_SESSION = (
    "SET SESSION time_zone = '+00:00', default_storage_engine = InnoDB, "
    # Strict mode, so that texts are never truncated silently.
    "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    f"innodb_lock_wait_timeout = {_LOCK_WAIT_S} "
    # A comment for MySQL, which has no such setting.
    f"/*M!100300 , idle_transaction_timeout = {_IDLE_S} */"
)

# Error codes: too many connections, shutdown, network, lock wait, deadlock, record changed,
# connection killed, and errors of the client when a server is unreachable.
_CONTENTION = frozenset((1020, 1205, 1213, 3572))
_AWAY = frozenset(
    (
        *(1040, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226),
        *(1927, 2002, 2003, 2006, 2013, 2055, 4031),
    )
)
_UNIQUE = 1062

# The default collation ignores case, but f16 and F16 are different.
_BINARY = "utf8mb4_bin"
# The database's own character set may lack characters, which become question marks.
_ALL_OF_UNICODE = "CHARACTER SET utf8mb4"


class _ViewSyntax(ViewSyntax):
    def time(self, seconds: str) -> str:
        return f"from_unixtime({seconds})"

    def before_slash(self, text: str) -> str:
        return f"substring_index({text}, '/', 1)"

    def after_slash(self, text: str) -> str:
        return f"substring_index({text}, '/', -1)"

    def joined(self, text: str) -> str:
        return f"group_concat(DISTINCT {text} ORDER BY {text})"

    def integer(self, text: str) -> str:
        return f"CAST({text} AS signed)"

    def number(self, text: str) -> str:
        return f"CAST({text} AS double)"

    def member(self, json: str, name: str) -> str:
        found = f"json_extract({json}, '$.{name}')"
        return f"CASE WHEN json_type({found}) <> 'NULL' THEN json_unquote({found}) END"

    def inner(self, json: str, *names: str) -> str:
        return f"json_extract({json}, '$.{'.'.join(names)}')"

    sample: ClassVar = {
        "metric": "e.name",
        "unit": "s.unit",
        "number": "s.place - 1",
        "value": "CASE WHEN s.word REGEXP '^-?[0-9]' THEN s.value END",
        "word": "CASE WHEN s.word NOT REGEXP '^-?[0-9]' THEN s.word END",
    }

    def each_sample(self, metrics: str) -> str:
        words = f"longtext {_ALL_OF_UNICODE}"
        one = f"json_extract({metrics}, concat('$.', json_quote(e.name)))"
        listed = f"place FOR ORDINALITY, value double PATH '$', word {words} PATH '$'"
        return (
            f"JOIN json_table(json_keys({metrics}), '$[*]' COLUMNS (name {words} PATH '$')) AS e "
            f"JOIN json_table({one}, '$' COLUMNS (unit {words} PATH '$.unit', "
            f"NESTED PATH '$.samples[*]' COLUMNS ({listed}))) AS s ON s.place IS NOT NULL"
        )


class MariaDBDialect(Dialect):
    """A MariaDB server; jobs are claimed with SKIP LOCKED."""

    name = "mysql"
    schemes: ClassVar = {
        "mysql+pymysql": "mysql+pymysql",
        "mysql": "mysql+pymysql",
        "mariadb": "mysql+pymysql",
        "mariadb+pymysql": "mysql+pymysql",
    }
    module = "pymysql"
    extra = "mariadb"
    example = "mysql+pymysql://user@host/name"
    view_syntax = _ViewSyntax()
    # Every session uses UTC, because local time is ambiguous in autumn.
    now = "CAST(unix_timestamp(now(6)) AS double)"
    # TEXT is limited to 64 KiB.
    long_text = f"LONGTEXT COLLATE {_BINARY}"
    long_bytes = "LONGBLOB"

    def unknown_option(self, options: Mapping[str, Any]) -> str:
        known = parameters_of(import_module("pymysql").connections.Connection.__init__)
        if odd := sorted(set(options) - known):
            return (
                f"an option {odd[0]!r} that PyMySQL does not know; use those of "
                "pymysql.connect, such as ssl_ca=FILE or ssl_verify_identity=true for an encrypted "
                "connection"
            )
        return ""

    def engine(self, url: URL, *, read_only: bool = False) -> Engine:
        options: dict[str, object] = {
            "charset": "utf8mb4",
            "init_command": _SESSION,
            "connect_timeout": _CONNECT_S,
            "read_timeout": _SILENT_S,
            "write_timeout": _SILENT_S,
        }
        given = {name: value for name, value in options.items() if name not in url.query}
        # REPEATABLE READ would lock gaps between jobs, so that claims wait for each other.
        # All transactions are ended here: a second rollback by the pool would only log errors of
        # dead servers.
        return create_engine(
            url,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            connect_args=given,
            pool_reset_on_return=None,
        )

    def remark(self, engine: Engine) -> str:
        if getattr(engine.dialect, "is_mariadb", False):
            return ""
        return (
            f"{self.for_people(engine.url)} is MySQL, which is not tested; use MariaDB or "
            "PostgreSQL"
        )

    def is_away(self, cause: BaseException) -> bool:
        return _code(cause) in _AWAY

    def is_contention(self, cause: BaseException) -> bool:
        return _code(cause) in _CONTENTION

    def is_collision(self, cause: BaseException) -> bool:
        return _code(cause) == _UNIQUE

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        # The names of such locks are global on the server, not in the database.
        database = str(connection.engine.url.database)
        name = f"skipjack_{hashlib.sha256(database.encode()).hexdigest()[:32]}"
        asked = {"name": name, "seconds": _SCHEMA_LOCK_WAIT_S}
        if not connection.execute(text("SELECT get_lock(:name, :seconds)"), asked).scalar():
            raise StorageError(
                f"{self.for_people(connection.engine.url)} was being created or upgraded by "
                f"another process for {_SCHEMA_LOCK_WAIT_S} seconds; try again"
            )
        try:
            yield
        finally:
            connection.execute(text("SELECT release_lock(:name)"), {"name": name})

    def in_order(self, query: Select[Any], table: Table, index: str) -> Select[Any]:
        # A sort would lock all waiting jobs, so that other claims find none.
        return query.with_hint(table, f"FORCE INDEX ({index})", self.name)

    def name_type(self, length: int) -> str:
        return f"VARCHAR({length}) COLLATE {_BINARY}"

    def ignoring(self, table: Table) -> Any:
        from sqlalchemy.dialects import mysql

        return mysql.insert(table).prefix_with("IGNORE")

    def insert_new(self, connection: Connection, table: Table, rows: Rows) -> int:
        """The rows are one JSON text, so that the driver needs no parameter for every value."""
        columns = [table.c[name] for name in rows[0]]
        typed = ", ".join(f"`{one.name}` {_plain(one)} PATH '$.{one.name}'" for one in columns)
        found = text(f"SELECT * FROM JSON_TABLE(:given, '$[*]' COLUMNS ({typed})) AS given")
        query = found.bindparams(given=json.dumps([*map(dict, rows)])).columns(
            *(Column(column.name, column.type) for column in columns)
        )
        return self.insert_selected(connection, table, list(rows[0]), query)


def _code(cause: BaseException) -> int | None:
    if type(cause).__module__.partition(".")[0] != "pymysql":
        return None
    code = cause.args[0] if cause.args else 0
    # PyMySQL raises (0, '') for a connection that is closed already.
    return 2006 if code == 0 else code if isinstance(code, int) else None


_PLAIN = (
    (Boolean, "boolean"),
    (Double, "double"),
    (Integer, "bigint"),
    (Text, f"longtext {_ALL_OF_UNICODE}"),
)


def _plain(column: Column[Any]) -> str:
    """The type of a column without its collation."""
    for kind, name in _PLAIN:
        if isinstance(column.type, kind):
            return name
    assert isinstance(column.type, String)
    return f"varchar({column.type.length}) {_ALL_OF_UNICODE}"
