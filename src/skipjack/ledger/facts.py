"""Rows that travel: what a ledger knows beyond what it was given, as JSON, and back.

Rows are facts with content ids, so taking facts in is the same union as merging a file.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from skipjack.errors import NewerFormatError, StorageError
from skipjack.ledger.merge import UNIONS
from skipjack.ledger.transaction import transaction

FORMAT = 2
"""Since 2 a candidate's map to its build has an identity; rows of 1 are taken in without."""

Snapshot = Mapping[str, frozenset[tuple[object, ...]]]
"""The keys of the rows of each table."""

_KEYS = {table: tuple(key.split(", ")) for table, key, _ in UNIONS}
UNION_TABLES = tuple(_KEYS)
BUILD_TABLES = ("candidates", "builds", "candidate_builds")
"""What is known of builds, and nothing of what became of them."""


def snapshot(connection: sqlite3.Connection) -> Snapshot:
    """What is there now."""
    return {
        table: frozenset(map(tuple, connection.execute(f"SELECT {', '.join(key)} FROM {table}")))
        for table, key in _KEYS.items()
    }


def facts_beyond(
    connection: sqlite3.Connection, known: Snapshot, only: Collection[str] = UNION_TABLES
) -> str:
    """The rows of these tables that were added since the snapshot, as JSON."""
    tables: dict[str, Any] = {}
    for table, key in _KEYS.items():
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
    return json.dumps({"format": FORMAT, "tables": tables}, separators=(",", ":"))


def _finite(value: object) -> object:
    """JSON has no infinities, and databases that read it refuse them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_facts(text: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, checked to be of tables that ledgers have."""
    try:
        content = json.loads(text)
        if content["format"] > FORMAT:
            raise NewerFormatError(
                f"results have format {content['format']}, this Skipjack knows {FORMAT}; "
                "use a newer Skipjack"
            )
        found = {
            table: [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
            for table, part in content["tables"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"results are not in the form of a ledger's rows: {error}") from error
    strange = found.keys() - _KEYS.keys()
    if strange:
        raise StorageError(f"results have rows of unknown tables: {', '.join(sorted(strange))}")
    return found


def add_facts(connection: sqlite3.Connection, text: str) -> int:
    """Take rows in, all or nothing; gives how many changed something."""
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
    known = connection.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,))
    columns = [name for (name,) in known if name in row]
    if len(columns) != len(row):
        raise StorageError(f"results have columns that table {table} does not have")
    marks = ", ".join("?" * len(columns))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT {on_conflict}",
        [row[name] for name in columns],
    )
