"""Checks of rows, when they enter a ledger and when they are read.

The constraints of the tables only check types. A row can satisfy them and still be unusable, as a
study whose seed is an empty text; it would make every later read fail, since rows are never
deleted.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any

from skipjack.core import Config, Device, Status
from skipjack.ledger import rows
from skipjack.ledger.migrations import columns_of
from skipjack.ledger.records import LARGEST, MarkKind
from skipjack.reading import described, parse_json, quoted

_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""The errors that reading an unusable row raises."""


def _device(row: rows.Row) -> None:
    Device.from_record(parse_json(row["record"]))


def _study(row: rows.Row) -> None:
    rows.seed_of(row["seed"])


def _measurement(row: rows.Row) -> None:
    rows.decode_samples(row["metrics"])
    rows.decode_details(row.get("details"))
    Status(row["status"])


def _mark_row(row: rows.Row) -> None:
    MarkKind(row["kind"])


def _candidate(row: rows.Row) -> None:
    Config.from_key(row["config"])


_READERS: Mapping[str, Callable[[rows.Row], object]] = {
    "devices": _device,
    "studies": _study,
    "study_log": rows.log_entry,
    "candidates": _candidate,
    "builds": rows.build_record,
    "measurements": _measurement,
    "marks": _mark_row,
    "verdicts": rows.decision_record,
}


def row_problem(table: str, row: rows.Row) -> str:
    """What is wrong with a row of a table; empty if it can be used."""
    columns = columns_of(table)
    if strange := row.keys() - columns.keys():
        return f"the table has no column {quoted(min(strange))}"
    for name, column in columns.items():
        value = row.get(name)
        if value is None and column.required:
            return f"{name} is missing"
        if value is not None and not _is(value, column.kind):
            return f"{name} is {described(value)}"
    if not _CREATED.fullmatch(str(row.get("created"))):
        return "created is not a time"
    try:
        if read := _READERS.get(table):
            read(row)
    except UNREADABLE as error:
        return reason_of(error)
    return ""


def _is(value: object, kind: str) -> bool:
    if kind == "TEXT":
        return isinstance(value, str) and (value.isascii() or is_text(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind == "INTEGER":
        return isinstance(value, int) and abs(value) <= LARGEST
    return isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST


def reason_of(error: BaseException) -> str:
    """Why a row could not be read, on one line."""
    said = " ".join(str(error).split())[:200]
    return f"{said} is missing" if isinstance(error, KeyError) else said or type(error).__name__


def is_text(value: str) -> bool:
    """Whether a value can be encoded as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_texts(row: rows.Row) -> None:
    """Raise `ValueError` if a text of a row was stored as invalid UTF-8."""
    for name, value in row.items():
        if type(value) is str and not value.isascii() and not is_text(value):
            raise ValueError(f"{name} is not UTF-8")


@contextmanager
def lenient_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Within the block, invalid UTF-8 does not stop a query: it is read as lone surrogates."""
    before = connection.text_factory
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        connection.text_factory = before


_ORPHANS = (
    ("studies", "protocol NOT IN (SELECT id FROM protocols)"),
    ("epochs", "study NOT IN (SELECT id FROM studies)"),
    (
        "study_log",
        "(study, solver_version, epoch) NOT IN (SELECT study, solver_version, number FROM epochs)",
    ),
    ("candidate_builds", "candidate NOT IN (SELECT id FROM candidates)"),
    (
        "measurements",
        "candidate NOT IN (SELECT id FROM candidates) "
        "OR protocol NOT IN (SELECT id FROM protocols)",
    ),
    ("marks", "protocol NOT IN (SELECT id FROM protocols)"),
    ("verdicts", "study NOT IN (SELECT id FROM studies)"),
)
"""Conditions for rows that refer to a missing row; parents come before their children."""


def remove_bad_rows(
    connection: sqlite3.Connection, keys: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Delete unusable rows from a copy of a ledger; returns a description of each.

    `keys` has the columns of each table's key. Rows that refer to a deleted row are deleted, too,
    so foreign keys must not be enforced.
    """
    left_out: list[str] = []
    for table, key in keys.items():
        connection.execute(f"DROP TRIGGER IF EXISTS {table}_no_delete")
        with lenient_texts(connection):
            bad = list(_bad_rows(connection, table))
        for row, why in bad:
            places = " AND ".join(f"{name} IS {_mark(row[name])}" for name in key)
            values = [_bound(row[name]) for name in key]
            connection.execute(f"DELETE FROM {table} WHERE {places}", values)
            left_out.append(f"{table} {_named(row, key)} ({why})")
    for table, orphaned in _ORPHANS:
        count = connection.execute(f"DELETE FROM {table} WHERE {orphaned}").rowcount
        left_out += [f"{table} (it refers to a missing row)"] * count
    return tuple(left_out)


def _bad_rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[rows.Row, str]]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    names = [name for name, *_ in cursor.description]
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        if why := row_problem(table, row):
            yield row, why


def _mark(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, str) else "?"


def _bound(value: Any) -> Any:
    """A part of a key as it is stored, even if it is invalid UTF-8."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _named(row: rows.Row, key: tuple[str, ...]) -> str:
    return " ".join(ascii(str(row[name])[:16])[1:-1] for name in key)
