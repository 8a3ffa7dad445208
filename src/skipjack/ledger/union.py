"""The union of two ledgers, from a file or from rows as JSON.

Rows are facts with content ids, so order and repetition do not matter. If two ledgers hold the
same fact, `created` is the only column that may differ: the earlier time is kept, except for a
candidate's map to its build, where the later one is.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.errors import CorruptFileError, MalformedError, NewerFormatError, StorageError
from skipjack.ledger.connection import check_pages, connect
from skipjack.ledger.migrations import check_schema, converted_row, migrate, read_version
from skipjack.ledger.row_checks import remove_bad_rows, row_problem
from skipjack.reading import Field, quoted, read_json
from skipjack.storage import (
    WRITE_AHEAD_LOG,
    DamagedError,
    companion_path,
    copy_database,
    describe_damage,
    disk_full,
    is_damage,
    is_full,
    pending_companions,
    read_only_uri,
    temporary_folder,
    transaction,
)

# The union with a ledger's file.

_FIRST = "DO UPDATE SET created = excluded.created WHERE excluded.created < {table}.created"
_LAST = "DO UPDATE SET created = excluded.created WHERE excluded.created > {table}.created"
_SAME = "DO NOTHING"

# Parents come before the rows that refer to them.
UNIONS = (
    ("devices", "id", _FIRST),
    ("protocols", "id", _FIRST),
    ("studies", "id", _FIRST),
    ("epochs", "study, solver_version, number", _FIRST),
    ("study_log", "id", _SAME),
    ("candidates", "id", _FIRST),
    ("builds", "id", _SAME),
    ("candidate_builds", "candidate, compat, identity, source_digest", _LAST),
    ("measurements", "id", _SAME),
    ("marks", "id", _SAME),
    ("verdicts", "id", _SAME),
)


KEYS = {table: tuple(key.split(", ")) for table, key, _ in UNIONS}


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    rows: int
    """The number of rows that are new or changed."""
    left_out: tuple[str, ...] = ()
    """Unusable rows, each with the reason."""


def merge_file(connection: sqlite3.Connection, other: Path, workspace: Path) -> Merged:
    """Add the rows that `other` has and this ledger lacks, in one transaction; skip unusable ones.

    `other` is not changed. It may be of an older format: a copy in `workspace` is migrated.
    """
    with temporary_folder(workspace, "merge") as folder:
        copy = folder / "other.sqlite"
        left_out = _copy_and_migrate(other, copy)
        with _attached(connection, copy):
            try:
                return Merged(_union(connection), left_out)
            except sqlite3.IntegrityError as error:
                raise _damaged(other, error) from error


def _union(connection: sqlite3.Connection) -> int:
    before = connection.total_changes
    with transaction(connection):
        for table, key, on_conflict in UNIONS:
            names = connection.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,))
            columns = ", ".join(name for (name,) in names)
            # `WHERE true` keeps SQLite from reading ON as the start of a join.
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) "
                f"SELECT {columns} FROM other.{table} WHERE true "
                f"ON CONFLICT ({key}) {on_conflict.format(table=table)}"
            )
    return connection.total_changes - before


def _copy_and_migrate(other: Path, copy: Path) -> tuple[str, ...]:
    """Make a valid copy in the present format, or raise an error that names `other`.

    Returns the rows that were left out.
    """
    try:
        with closing(_source(other, copy.parent)) as source, closing(connect(copy)) as target:
            source.backup(target)
            check_pages(target)
            migrate(target)
            check_schema(target)
            target.execute("PRAGMA foreign_keys = OFF")
            with transaction(target):
                left_out = remove_bad_rows(target, KEYS)
            if not left_out:
                _check_complete(target, other)
            return left_out
    except (sqlite3.Error, UnicodeDecodeError, DamagedError) as error:
        if is_damage(error):
            raise _damaged(other, describe_damage(error)) from error
        if isinstance(error, sqlite3.Error) and is_full(error):
            raise disk_full(copy) from error
        raise StorageError(f"cannot read {other}: {error}") from error


def _check_complete(copy: sqlite3.Connection, other: Path) -> None:
    """Raise `StorageError` if a copy lacks the write-ahead log, which may hold all of the rows."""
    if any(copy.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in KEYS):
        return
    log = companion_path(other, WRITE_AHEAD_LOG)
    if log not in pending_companions(other):
        raise StorageError(
            f"{other} holds no rows, and {log.name}, which has the newest rows of a ledger in use, "
            "is not next to it; nothing was merged: let the commands that use the ledger end and "
            "copy it again, or copy both files"
        )


def _source(other: Path, scratch: Path) -> sqlite3.Connection:
    """A read-only connection to a ledger of a known format."""
    if not other.is_file():
        raise StorageError(f"there is no ledger at {other}")
    source = connect(other, uri=read_only_uri(other))
    try:
        read_version(source, other)
        return source
    except BaseException as error:
        source.close()
        # Its writer died and left a journal; the unfinished transaction is undone in a copy.
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    source = connect(copy_database(other, scratch))
    try:
        read_version(source, other)
    except BaseException:
        source.close()
        raise
    return source


def _damaged(other: Path, reason: object) -> CorruptFileError:
    return CorruptFileError(
        f"{other} is damaged ({reason}); it was not changed and nothing was merged"
    )


@contextmanager
def _attached(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    connection.execute("ATTACH DATABASE ? AS other", (str(path),))
    try:
        yield
    finally:
        connection.execute("DETACH DATABASE other")


# Rows as JSON: those that were added to a ledger since a snapshot, and adding them to another.
#
# Rows are facts with content ids, so adding facts is the same union as merging a file.

FORMAT = 4
"""Since 2, a candidate's map to its build has an identity, which rows of format 1 lack. Since 3,
measurements have named metrics with units, and a number for their order. Since 4, builds have the
machine that made them."""
_NAMED_METRICS = 3

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table."""
Snapshot = Mapping[str, frozenset[tuple[object, ...]]]
"""The keys of the rows of each table."""

UNION_TABLES = tuple(KEYS)
BUILD_TABLES = ("candidates", "builds", "candidate_builds")
"""The tables about builds, without measurements and decisions."""


def snapshot(connection: sqlite3.Connection) -> Snapshot:
    """The keys of all present rows."""
    return {
        table: frozenset(map(tuple, connection.execute(f"SELECT {', '.join(key)} FROM {table}")))
        for table, key in KEYS.items()
    }


def facts_since(
    connection: sqlite3.Connection, known: Snapshot, only: Collection[str] = UNION_TABLES
) -> str:
    """The rows of these tables that were added since the snapshot, as JSON."""
    tables: dict[str, Any] = {}
    for table, key in KEYS.items():
        if table not in only:
            continue
        cursor = connection.execute(f"SELECT * FROM {table}")
        columns = [name for name, *_ in cursor.description]
        places = [columns.index(name) for name in key]
        rows = [
            [_finite(value) for value in row]
            for row in cursor
            if tuple(row[at] for at in places) not in known[table]
        ]
        if rows:
            tables[table] = {"columns": columns, "rows": rows}
    return _text(tables)


def write_facts(facts: Facts) -> str:
    """Rows as text for `read_facts`; rows of a table have the same columns in the same order."""
    return _text(
        {
            table: {"columns": [*rows[0]], "rows": [[*row.values()] for row in rows]}
            for table, rows in facts.items()
            if rows
        }
    )


def _text(tables: Mapping[str, Any]) -> str:
    return json.dumps({"format": FORMAT, "tables": tables}, separators=(",", ":"))


def _finite(value: object) -> object:
    """None for infinities, which JSON does not have and databases refuse."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_facts(text: str) -> dict[str, list[dict[str, Any]]]:
    """The checked rows of each table."""
    try:
        content = read_json(text)
        form = content["format"].integer()
        if form > FORMAT:
            raise NewerFormatError(
                f"results have format {form}, this Skipjack knows {FORMAT}; use a newer Skipjack"
            )
        parts = content["tables"].fields()
        if strange := parts.keys() - KEYS.keys():
            names = ", ".join(map(quoted, sorted(strange)))
            raise StorageError(f"results have rows of unknown tables: {names}")
        return {table: list(_rows(table, part, form)) for table, part in parts.items()}
    except MalformedError as error:
        raise StorageError(f"results are not in the form of a ledger's rows: {error}") from None


def _rows(table: str, part: Field, form: int) -> Iterator[dict[str, Any]]:
    columns = [name.text() for name in part["columns"].elements()]
    for row in part["rows"].elements():
        if not isinstance(row.plain, list) or len(row.plain) != len(columns):
            raise row.malformed(f"expected {len(columns)} values")
        fields = dict(zip(columns, row.plain, strict=True))
        if form < _NAMED_METRICS:
            fields = converted_row(table, fields)
        if why := row_problem(table, fields):
            raise row.malformed(f"it is not a row of {table}: {why}")
        yield fields


def add_facts(connection: sqlite3.Connection, text: str) -> int:
    """Add rows in one transaction; returns how many changed something."""
    found = read_facts(text)
    before = connection.total_changes
    with transaction(connection):
        for table, key, on_conflict in UNIONS:
            for row in found.get(table, ()):
                _insert(connection, table, row, f"({key}) {on_conflict.format(table=table)}")
    return connection.total_changes - before


def _insert(
    connection: sqlite3.Connection, table: str, row: Mapping[str, Any], on_conflict: str
) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT {on_conflict}",
        list(row.values()),
    )
