"""All or nothing: one SQLite transaction, and what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.storage.failure import disk_full
from skipjack.storage.sqlite_files import primary_code

BUSY_TIMEOUT_S = 30.0


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside, or nothing of it. Takes the write lock at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_full(error: sqlite3.Error) -> bool:
    """Whether there was no room to write."""
    return primary_code(error) == sqlite3.SQLITE_FULL


def storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    """The error to raise for what SQLite said about `path`."""
    code = primary_code(error)
    if is_full(error):
        return disk_full(path)
    if code == sqlite3.SQLITE_BUSY:
        return StorageError(
            f"{path} was locked by another process for {BUSY_TIMEOUT_S:g} seconds; try again"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StorageError(
            f"cannot write {path}: {error}; "
            "make it writable or set SKIPJACK_USER_DB_PATH to another directory"
        )
    if code == sqlite3.SQLITE_IOERR:
        return StorageError(f"cannot read or write {path}: {error}; check the disk and its space")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return StorageError(f"{path} refused a record, nothing was written: {error}")
    return StorageError(f"cannot use {path}: {error}")
