"""Opening the file: create, check, migrate, or set a damaged one aside."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError
from skipjack.ledger.migrations import MIGRATIONS, check_schema, migrate, read_version
from skipjack.storage import (
    FileLock,
    can_create_in,
    ensure_directory,
    is_network_file_system,
    read_only_uri,
    set_aside,
)
from skipjack.storage.sqlite_files import (
    WRITE_AHEAD_LOG,
    DamagedError,
    beside,
    check_journal,
    damage_in_words,
    is_damage,
    unfinished,
)
from skipjack.storage.transaction import BUSY_TIMEOUT_S, storage_error

FILE_NAME = "ledger.sqlite"

_COMPANIONS = ("-wal", "-shm", "-journal")
_LARGEST_QUICK_CHECK_BYTES = 8 * 2**20
"""Up to this size a check of every page takes some 25 ms, less than starting Python does."""

log = logging.getLogger(__name__)


def open_connection(directory: Path) -> sqlite3.Connection:
    """A connection to the ledger in `directory`, its tables up to date.

    Opening is one process at a time: two that create, migrate or set aside at once would trip over
    each other.
    """
    path = ensure_directory(directory) / FILE_NAME
    with _lock(path):
        check_journal(path)
        connection = connect(path)
        try:
            _prepare(connection, path)
        except BaseException as error:
            with closing(connection):
                if is_damage(error):
                    raise _set_aside(path, error) from error
                if isinstance(error, sqlite3.Error):
                    raise storage_error(error, path) from error
                raise
    return connection


def open_to_read(directory: Path) -> sqlite3.Connection:
    """The same for who only reads: the ledger of a directory that is read-only will do."""
    path = directory / FILE_NAME
    if not path.is_file() or can_create_in(directory):
        return open_connection(directory)
    connection = connect(path, uri=read_only_uri(path))
    try:
        if (version := read_version(connection, path)) != len(MIGRATIONS):
            raise StorageError(
                f"{path} has format {version} and must be brought to {len(MIGRATIONS)} first, but "
                f"{directory} is read-only; copy it to a directory that you can write to"
            )
        check_schema(connection)
    except BaseException as error:
        connection.close()
        if is_damage(error):
            said = f"the ledger {path} is damaged ({damage_in_words(error)}); it was left as it is"
            raise CorruptFileError(said) from error
        if isinstance(error, sqlite3.Error):
            raise storage_error(error, path) from error
        raise
    return connection


def connect(path: Path, *, uri: str = "") -> sqlite3.Connection:
    """A bare connection: explicit transactions, foreign keys on, nothing read yet."""
    connection = sqlite3.connect(
        uri or path, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=bool(uri)
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def fold_in(directory: Path) -> None:
    """Bring into the ledger's file what processes that were ended left in its write-ahead log.

    SQLite reads both, but people copy one file. A courtesy: what is wrong with the file is said to
    who opens it.
    """
    path = directory / FILE_NAME
    if beside(path, WRITE_AHEAD_LOG) not in unfinished(path):
        return
    with contextlib.suppress(sqlite3.Error), closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def retire_damaged(connection: sqlite3.Connection, path: Path, error: Exception) -> StorageError:
    """What to raise when an open ledger turned out damaged; closes the connection."""
    with _lock(path), closing(connection):
        if _is_sound(path):
            return StorageError(f"{path} could not be read: {error}; run the command again")
        return _set_aside(path, error)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if 0 < (version := read_version(connection, path)) < len(MIGRATIONS):
        log.info("%s is brought from format %d to %d", path, version, len(MIGRATIONS))
    if path.stat().st_size <= _LARGEST_QUICK_CHECK_BYTES:
        check_pages(connection)
    network = is_network_file_system(path)
    if network:
        log.warning(
            "%s is on a network file system (%s); writing is slower and safest from one host",
            path,
            network,
        )
    _set_journal_mode(connection, "delete" if network else "wal", path)
    migrate(connection)
    check_schema(connection)


def _set_journal_mode(connection: sqlite3.Connection, wanted: str, path: Path) -> None:
    (mode,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    if mode != wanted:
        log.warning("%s keeps journal mode %s, %s is not possible there", path, mode, wanted)
    # Under WAL, NORMAL loses no commit when a process dies, and only a power cut can lose the last.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")


def check_pages(connection: sqlite3.Connection) -> None:
    """Let SQLite look at every page; `DamagedError` says what it found."""
    (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise DamagedError(answer)


def _is_sound(path: Path) -> bool:
    try:
        with closing(connect(path)) as connection:
            check_pages(connection)
            check_schema(connection)
    except (sqlite3.Error, DamagedError, UnicodeDecodeError):
        return False
    return True


def _set_aside(path: Path, error: BaseException) -> CorruptFileError:
    # Connections are closed afterwards: on closing, SQLite would fold the write-ahead log into the
    # damaged file and delete it, which it does not do to a file that has moved.
    aside = set_aside(path, companions=_COMPANIONS)
    return CorruptFileError(
        f"the ledger {path} is damaged ({damage_in_words(error)}); it was set aside as "
        f"{aside.name}, the next run starts a new one"
    )


def _lock(path: Path) -> FileLock:
    return FileLock(path.with_name("ledger.lock"), on_wait=log.info)
