"""The format of a ledger file: read, checked, and brought up to date from earlier formats."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from skipjack.core import Metric
from skipjack.errors import NewerFormatError, StorageError
from skipjack.ledger.records import NOT_FINITE, TIME, number_of, unit_of
from skipjack.ledger.schema import MIGRATIONS
from skipjack.reading import parse_json
from skipjack.storage import DamagedError, transaction

# The conversion of rows of ledgers up to format 4.
#
# Measurements had times in nanoseconds, metrics without units, and other facts about a run among
# the metrics. Runs of commands had the seconds that they took as samples, and some rows were not
# measurements, but marks for later runs.

_COMMAND = "command"
"""The solver of runs of commands."""
_OURS = "skipjack."
"""The prefix of facts that were kept among the metrics of a command."""


class _Converted(NamedTuple):
    metrics: str
    reason: str
    details: str | None


def register(connection: sqlite3.Connection) -> None:
    """Register the conversions as functions for the migration's SQL."""
    for place, name in enumerate(_Converted._fields):

        def convert(solver: Any, samples: bytes, metrics: bytes, at: int = place) -> str | None:
            converted = _convert(solver, samples, metrics)
            return converted[at] if converted else None

        connection.create_function(f"format_5_{name}", 3, convert, deterministic=True)
    connection.create_function("format_5_seq", 1, number_of, deterministic=True)


def converted_row(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results in the present format; such results were always of kernels."""
    new = dict(row)
    if table == "measurements" and "samples_ns" in new:
        samples, metrics = str(new.pop("samples_ns")), str(new.pop("metrics", ""))
        if converted := _convert("", samples.encode(), metrics.encode()):
            new.update(converted._asdict())
        new["status"] = new.pop("verdict", None)
        new["seq"] = number_of(str(row.get("created")))
    return new


@lru_cache(maxsize=8)
def _convert(solver: str | None, samples: bytes, metrics: bytes) -> _Converted | None:
    """The columns in the present format; None if the row cannot be read."""
    try:
        times_ns, named = (parse_json(text, finite=False) for text in (samples, metrics))
        return _of_command(times_ns, named) if solver == _COMMAND else _of_kernel(times_ns, named)
    except (ValueError, TypeError, AttributeError):
        return None


def _of_kernel(times_ns: list[float], named: dict[str, Metric]) -> _Converted:
    reason = str(named.pop("reason", ""))
    metrics = {f"reported {name}" if name == TIME else name: named[name] for name in named}
    return _Converted(_encoded({TIME: times_ns}, metrics), _text(reason), None)


def _of_command(times_ns: list[float], named: dict[str, Metric]) -> _Converted:
    details: dict[str, Any] = {
        name.removeprefix(_OURS): value for name, value in named.items() if name.startswith(_OURS)
    }
    samples = {f"{_OURS}run_seconds": [ns / 1e9 for ns in times_ns]}
    if "build_seconds" in details:
        samples[f"{_OURS}build_seconds"] = [details.pop("build_seconds")]
    reason = str(details.pop("reason", ""))
    if "notes" in details:
        details["notes"] = _notes(details["notes"])
    if details.get("timeout_s") == "inf":
        del details["timeout_s"]
    metrics = {name: value for name, value in named.items() if not name.startswith(_OURS)}
    kept = json.dumps(details, sort_keys=True, separators=(",", ":")) if details else None
    return _Converted(_encoded(samples, metrics), _text(reason), kept)


def _notes(text: Any) -> Any:
    try:
        return parse_json(text, finite=False)
    except (ValueError, TypeError, AttributeError):
        return text


def _encoded(samples: Mapping[str, list[float]], metrics: Mapping[str, Metric]) -> str:
    named: dict[str, list[Any]] = {name: [value] for name, value in metrics.items()}
    listed = {
        name: {"samples": values, "unit": "" if _is_word(values) else unit_of(name)}
        for name, values in {**named, **samples}.items()
    }
    return json.dumps(listed, sort_keys=True, separators=(",", ":"))


def _is_word(values: list[Any]) -> bool:
    return any(isinstance(value, str) and value not in NOT_FINITE for value in values)


def _text(reason: str) -> str:
    """A reason that can be stored as UTF-8."""
    return reason.encode("utf-8", "backslashreplace").decode()


# The format of a ledger file: read, checked, and brought up to date.

APPLICATION_ID = 0x536B6A6B
"""Marks an SQLite file as a ledger of ours: "Skjk"."""


def read_version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's version, read without changes; refuses newer ledgers and other files."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or version or objects):
        raise StorageError(f"{path} is not a Skipjack ledger; it was not changed")
    if version > len(MIGRATIONS):
        raise NewerFormatError(
            f"{path} has format {version}, this Skipjack knows {len(MIGRATIONS)}; "
            "it was not changed, use a newer Skipjack"
        )
    if version < 0:
        raise DamagedError(f"its format number is {version}")
    return int(version)


def check_schema(connection: sqlite3.Connection, version: int = len(MIGRATIONS)) -> None:
    """Raise `DamagedError` if a table or view is missing or was altered."""
    expected = {one for one in _made_of(version) if one.kind in ("table", "view")}
    if missing := expected.difference(_objects(connection)):
        first = min(missing)
        raise DamagedError(f"its {first.kind} {first.name} is missing or altered")


class _Object(NamedTuple):
    """A table, index, view or trigger."""

    kind: str
    name: str
    sql: str


def _objects(connection: sqlite3.Connection) -> Iterator[_Object]:
    found = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return (_Object(str(kind), str(name), str(sql)) for kind, name, sql in found)


_CREATE = re.compile(r"CREATE (TABLE|INDEX|VIEW|TRIGGER) (\w+)")


@cache
def _made_of(version: int) -> tuple[_Object, ...]:
    """The objects of a ledger of a format, tables first.

    SQLite keeps the text that created an object, which is the last one among the steps.
    """
    made: dict[str, _Object] = {}
    for statement in _steps(0, version):
        if found := _CREATE.match(statement):
            made[found[2]] = _Object(found[1].lower(), found[2], statement)
    return tuple(sorted(made.values(), key=lambda one: one.kind != "table"))


def statements_of(kind: str) -> dict[str, str]:
    """The SQL of the objects of a kind, as ``trigger``, in the present format, by their names."""
    return {one.name: one.sql for one in _made_of(len(MIGRATIONS)) if one.kind == kind}


@dataclass(frozen=True, slots=True)
class Column:
    """The type of a column."""

    kind: str
    """``TEXT``, ``INTEGER`` or ``REAL``."""
    required: bool
    default: str | None = None
    """The value in rows that lack it; None for NULL."""


@cache
def columns_of(table: str, version: int = len(MIGRATIONS)) -> Mapping[str, Column]:
    """The columns of a table by their names, in a ledger of a format."""
    query = 'SELECT name, type, "notnull", dflt_value FROM pragma_table_info(?)'
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, target=version)
        return {
            name: Column(kind, bool(filled) and default is None, default and default.strip("'"))
            for name, kind, filled, default in connection.execute(query, (table,))
        }


def migrate(connection: sqlite3.Connection, *, target: int = len(MIGRATIONS)) -> None:
    """Apply the missing steps in one transaction, even if the process is killed.

    An empty file gets the tables of the target format directly.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= target:
        return
    if version > 0:
        check_schema(connection, version)
    # A row whose parent is missing is skipped by readers, and must not stop a migration.
    (enforced,) = connection.execute("PRAGMA foreign_keys").fetchone()
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        with transaction(connection):
            if version > 0:
                register(connection)
            made = [one.sql for one in _made_of(target)]
            for statement in _steps(version, target) if version > 0 else made:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {target}")
    finally:
        connection.execute(f"PRAGMA foreign_keys = {'ON' if enforced else 'OFF'}")


def _steps(version: int, target: int) -> Iterable[str]:
    return chain.from_iterable(MIGRATIONS[version:target])
