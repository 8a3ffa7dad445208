"""Opening SQLite files of others without leaving a trace, and writing new ones in one step."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError
from skipjack.interop.miopen.file_bytes import BZIP2, file_bytes
from skipjack.storage.atomic import atomic_replacement
from skipjack.storage.failure import disk_full
from skipjack.storage.sqlite_files import (
    MAGIC,
    connect_copy,
    connect_immutable,
    unfinished,
)

_HEAD = 64


@contextmanager
def reading(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing, not even beside the file; `what` it is to be.

    A file with a write-ahead log or a journal beside it is read as a copy, so that what is in there
    counts and the directory may be read-only.
    """
    with (
        tempfile.TemporaryDirectory() as scratch,
        _sentences(path, what),
        closing(_connected(path, Path(scratch), what)) as connection,
    ):
        yield connection


def _connected(path: Path, scratch: Path, what: str) -> sqlite3.Connection:
    head = _head(path)
    if head.startswith(BZIP2) or not head.startswith(MAGIC):
        data = file_bytes(path)
        _check_head(data, path, what)
        copy = scratch / "database"
        copy.write_bytes(data)
        return connect_immutable(copy)
    return connect_copy(path, scratch) if unfinished(path) else connect_immutable(path)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""  # reading it whole says why


def _check_head(data: bytes, path: Path, what: str) -> None:
    if not data:
        raise CorruptFileError(f"{path} is empty, so it is no {what}")
    if not data.startswith(MAGIC):
        raise CorruptFileError(f"{path} is no {what}: it is not an SQLite file")


@contextmanager
def writing(path: Path, schema: Sequence[str], what: str) -> Iterator[sqlite3.Connection]:
    """A connection to a new file with these tables, which takes the place of `path` at the end."""
    _refuse_to_pull_away(path)
    with atomic_replacement(path) as temporary, _sentences(path, what):
        temporary.touch(exist_ok=False)  # says better than SQLite why it cannot be
        with closing(sqlite3.connect(temporary)) as connection:
            # If this fails the file is thrown away; a journal would only be left behind.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")  # synced once, below
            connection.execute("PRAGMA cache_size = -65536")  # KiB; indexes are sorted there
            for statement in schema:
                connection.execute(statement)
            yield connection
            connection.commit()
        with temporary.open("rb") as file:
            os.fsync(file.fileno())


def _refuse_to_pull_away(path: Path) -> None:
    """SQLite would play what stands in the log of the old file into the new one."""
    if beside := unfinished(path):
        raise StorageError(
            f"cannot replace {path}: {beside[0].name} beside it holds changes that are not yet in "
            "it; end the program that writes it, or choose another name"
        )


@contextmanager
def _sentences(path: Path, what: str) -> Iterator[None]:
    """What SQLite says, in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise disk_full(path) from None
        raise CorruptFileError(f"{path} cannot be used as a {what}: {error}") from None
    except UnicodeEncodeError:
        raise StorageError(
            f"{path} cannot hold bytes that are no UTF-8; write a text database instead"
        ) from None
    except UnicodeDecodeError:
        raise CorruptFileError(
            f"{path} cannot be used as a {what}: a name in it is not UTF-8; fetch it again"
        ) from None


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The names of a table's columns; none if there is no such table.

    A view is none: it may compute rows without end.
    """
    plain = "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND type = 'table'"
    if connection.execute(plain, (table,)).fetchone() is None:
        return ()
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return tuple(name for (name,) in rows)
