"""Rows that travel: what a ledger knows beyond what it was given, as JSON, and back.

Rows are facts with content ids, so taking facts in is the same union as merging a file.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from skipjack.errors import MalformedError, NewerFormatError, StorageError
from skipjack.ledger.checking import complaint
from skipjack.ledger.format_4 import converted_row
from skipjack.ledger.merge import KEYS, UNIONS
from skipjack.reading import Field, quoted, read_json
from skipjack.storage.transaction import transaction

FORMAT = 3
"""Since 2 a candidate's map to its build has an identity; rows of 1 are taken in without. Since 3
measurements have named metrics with units, and a number for their order."""
_NAMED_METRICS = 3

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table."""
Snapshot = Mapping[str, frozenset[tuple[object, ...]]]
"""The keys of the rows of each table."""

UNION_TABLES = tuple(KEYS)
BUILD_TABLES = ("candidates", "builds", "candidate_builds")
"""What is known of builds, and nothing of what became of them."""


def snapshot(connection: sqlite3.Connection) -> Snapshot:
    """What is there now."""
    return {
        table: frozenset(map(tuple, connection.execute(f"SELECT {', '.join(key)} FROM {table}")))
        for table, key in KEYS.items()
    }


def facts_beyond(
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
    """Rows as `read_facts` takes them; those of a table have the same columns in one order."""
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
    """JSON has no infinities, and databases that read it refuse them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_facts(text: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, checked to be of tables that ledgers have."""
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
        if why := complaint(table, fields):
            raise row.malformed(f"it is no row of {table}: {why}")
        yield fields


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
    marks = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks}) ON CONFLICT {on_conflict}",
        list(row.values()),
    )
