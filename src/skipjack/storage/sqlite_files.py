"""SQLite files that may be damaged or untrusted: damage, connections, transactions.

A database has companion files. SQLite obeys the journal next to it, and a journal
may name one more file, which SQLite deletes after undoing a transaction. An untrusted file is
therefore read without its companions, or from a copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from skipjack.errors import CorruptFileError, StorageError
from skipjack.storage.directory import can_create_in
from skipjack.storage.files import disk_full

# Damage, companion files, and connections to untrusted files.

MAGIC = b"SQLite format 3\0"
WRITE_AHEAD_LOG = "-wal"
JOURNAL = "-journal"
_COMPANIONS = (WRITE_AHEAD_LOG, JOURNAL)
"""Suffixes of files with changes that are not yet in the database itself."""
_NAMES_ANOTHER_FILE = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that is part of a transaction over several files."""
_OWN_MARK = "-mj"
"""The suffix that SQLite adds to the first database's name for the file of such a transaction."""
_LONGEST_NAME = 1 << 16
_SMALLEST_LIMIT = 1 << 20
"""Bytes that a value may have however small the file is."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)


class DamagedError(Exception):
    """A check of a file found damage."""


def primary_code(error: BaseException) -> int:
    """SQLite's code of an error; 0 for errors of the Python layer, which have none."""
    # Extended codes keep the primary one in their low byte.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: BaseException) -> bool:
    """Whether an error means that a file is damaged, not the disk, a lock or the statement.

    Python decodes the names and messages of SQLite: damage in them is a UnicodeDecodeError, and
    damage in a text an OperationalError without a code.
    """
    if isinstance(error, DamagedError | UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.Error):
        return False
    return primary_code(error) in _DAMAGE or str(error).startswith("Could not decode to UTF-8")


def describe_damage(error: BaseException) -> str:
    """What is wrong with a damaged file, as a part of a sentence."""
    return "a text in it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def companion_path(path: Path, suffix: str) -> Path:
    """The path at which SQLite looks for a companion of `path`: links are resolved first."""
    place = Path(os.path.realpath(path))
    return place.with_name(place.name + suffix)


def pending_companions(path: Path) -> list[Path]:
    """The companion files of a database that have content."""
    return [each for suffix in _COMPANIONS if _has_content(each := companion_path(path, suffix))]


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def check_journal(path: Path) -> bool:
    """Whether `path` has a journal, which SQLite rolls back when it opens the file for writing.

    `CorruptFileError` if the journal names a file that is not SQLite's own: it would be deleted.
    """
    journal = companion_path(path, JOURNAL)
    named = _named_by(journal)
    own = os.fsencode(os.path.realpath(path)) + _OWN_MARK.encode()
    if named is not None and not named.startswith(own):
        raise _dangerous(path, journal, named)
    return _has_content(journal)


def _named_by(journal: Path) -> bytes | None:
    """The other file that a journal names; empty if its name cannot be read, None if none."""
    try:
        if not stat.S_ISREG(journal.stat().st_mode):
            return b""
        with journal.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16))
            tail = file.read(16)
            if not tail.endswith(_NAMES_ANOTHER_FILE):
                return None
            length = int.from_bytes(tail[:4], "big")
            if not 0 < length <= min(size - 16, _LONGEST_NAME):
                return b""
            file.seek(size - 16 - length)
            return file.read(length)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def _dangerous(path: Path, journal: Path, named: bytes) -> CorruptFileError:
    other = f" ({os.fsdecode(named)!r})" if named else ""
    return CorruptFileError(
        f"{path} was not opened: its journal, {journal.name}, names another file{other}, which "
        "SQLite would delete; if the database is not your own, move the journal away"
    )


def read_only_uri(path: Path) -> str:
    """The URI that opens a database read-only.

    If SQLite cannot create its shared memory next to the database, it is opened as immutable.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    usable = companion_path(path, WRITE_AHEAD_LOG).exists() or can_create_in(path.parent)
    return uri if usable else f"{uri}&immutable=1"


def connect_immutable(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection to one file only: its companions are not read, created or changed."""
    return hardened(_connect(path, "mode=ro&immutable=1", any_thread), path)


def connect_copy(path: Path, scratch: Path) -> sqlite3.Connection:
    """A connection to a copy in `scratch`, with the changes in the file's companions."""
    copy = copy_database(path, scratch)
    return hardened(_connect(copy, "mode=rw"), copy)


def copy_database(path: Path, scratch: Path) -> Path:
    """A copy of a file and its companions, which SQLite may obey in `scratch`."""
    copy = scratch / "copy.sqlite"
    try:
        shutil.copyfile(path, copy)
        for each in pending_companions(path):
            suffix = next(end for end in _COMPANIONS if each.name.endswith(end))
            shutil.copyfile(each, copy.with_name(copy.name + suffix))
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot read {path}: {reason}") from None
    journal = copy.with_name(copy.name + JOURNAL)
    # In a copy no name is acceptable: SQLite would also delete the original file's own.
    if (named := _named_by(journal)) is not None:
        raise _dangerous(path, companion_path(path, JOURNAL), named)
    return copy


def _connect(path: Path, mode: str, any_thread: bool = False) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path.absolute()))}?{mode}"
    return sqlite3.connect(address, uri=True, check_same_thread=not any_thread)


def hardened(connection: sqlite3.Connection, read: Path | None) -> sqlite3.Connection:
    """The connection, configured for an untrusted file.

    Its schema is not trusted, its pages are checked, and no value of the file `read` may be longer
    than the file.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    if read is not None:
        files = (read, *pending_companions(read))
        longest = max(_SMALLEST_LIMIT, sum(each.stat().st_size for each in files))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, (1 << 31) - 1))
    return connection


# SQLite transactions, and the errors to raise for SQLite's.

BUSY_TIMEOUT_S = 30.0


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the changes of the block, or none of them. Takes the write lock at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # If the disk is full, SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk was full."""
    return primary_code(error) == sqlite3.SQLITE_FULL


def storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    """The error to raise for an error of SQLite about `path`."""
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
