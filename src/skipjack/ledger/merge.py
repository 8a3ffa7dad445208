"""The union of two ledgers. Rows are facts with content ids, so order and repetition do not matter.

Where two ledgers hold the same fact, `created` is the only column that may differ: the first time
counts, except for a candidate's map to its build, where the last does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError
from skipjack.ledger.checking import remove_bad_rows
from skipjack.ledger.connection import check_pages, connect
from skipjack.ledger.migrations import check_schema, migrate, read_version
from skipjack.storage import read_only_uri
from skipjack.storage.failure import disk_full
from skipjack.storage.litter import temporary_folder
from skipjack.storage.sqlite_files import (
    WRITE_AHEAD_LOG,
    DamagedError,
    beside,
    copied,
    damage_in_words,
    is_damage,
    unfinished,
)
from skipjack.storage.transaction import is_full, transaction

_FIRST = "DO UPDATE SET created = excluded.created WHERE excluded.created < {table}.created"
_LAST = "DO UPDATE SET created = excluded.created WHERE excluded.created > {table}.created"
_SAME = "DO NOTHING"

# Parents stand before the rows that refer to them.
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
    """What came of a merge."""

    rows: int
    """That are new here, or changed."""
    left_out: tuple[str, ...] = ()
    """Rows that cannot be used, each with the reason."""


def merge_file(connection: sqlite3.Connection, other: Path, workspace: Path) -> Merged:
    """Add what `other` has and this ledger lacks, all or nothing, but for rows of no use.

    `other` is only read. It may be of an older format: a copy in `workspace` is migrated.
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
    """Make a sound copy with the tables that this ledger has, or raise what names `other`.

    Gives the rows that were left out.
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
            raise _damaged(other, damage_in_words(error)) from error
        if isinstance(error, sqlite3.Error) and is_full(error):
            raise disk_full(copy) from error
        raise StorageError(f"cannot read {other}: {error}") from error


def _check_complete(copy: sqlite3.Connection, other: Path) -> None:
    """A ledger that is in use has its newest rows, perhaps all, in a file beside it."""
    if any(copy.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in KEYS):
        return
    log = beside(other, WRITE_AHEAD_LOG)
    if log not in unfinished(other):
        raise StorageError(
            f"{other} holds no rows, and {log.name}, where a ledger that is in use has its newest "
            "ones, is not beside it; nothing was merged: let the commands that use the ledger end "
            "and copy it again, or copy both files"
        )


def _source(other: Path, scratch: Path) -> sqlite3.Connection:
    """A connection that only reads; the file is known to be a ledger that is read here."""
    if not other.is_file():
        raise StorageError(f"there is no ledger at {other}")
    source = connect(other, uri=read_only_uri(other))
    try:
        read_version(source, other)
        return source
    except BaseException as error:
        source.close()
        # Its writer died and left a journal; what it had not finished is undone in a copy.
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    source = connect(copied(other, scratch))
    try:
        read_version(source, other)
    except BaseException:
        source.close()
        raise
    return source


def _damaged(other: Path, reason: object) -> CorruptFileError:
    return CorruptFileError(
        f"{other} is damaged ({reason}); it was left as it is and nothing was merged"
    )


@contextmanager
def _attached(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    connection.execute("ATTACH DATABASE ? AS other", (str(path),))
    try:
        yield
    finally:
        connection.execute("DETACH DATABASE other")
