"""The ledger's file: created, checked, migrated, quarantined if it is damaged; its transactions and
queries.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from skipjack.errors import CorruptFileError, StorageError
from skipjack.ledger import row_checks, rows
from skipjack.ledger.migrations import check_schema, migrate, read_version
from skipjack.ledger.schema import MIGRATIONS
from skipjack.reading import quoted
from skipjack.storage import (
    BUSY_TIMEOUT_S,
    WRITE_AHEAD_LOG,
    Clock,
    DamagedError,
    FileLock,
    can_create_in,
    check_journal,
    companion_path,
    describe_damage,
    ensure_directory,
    is_damage,
    is_network_file_system,
    pending_companions,
    primary_code,
    quarantine,
    read_only_uri,
    storage_error,
    timestamp,
    transaction,
    utc_now,
)

# Opening the file: creating, checking and migrating it, or quarantining a damaged one.

FILE_NAME = "ledger.sqlite"

_COMPANIONS = ("-wal", "-shm", "-journal")
_LARGEST_QUICK_CHECK_BYTES = 8 * 2**20
"""Up to this size, a check of every page takes about 25 ms, less than starting Python."""

log = logging.getLogger(__name__)


def open_connection(directory: Path, *, to_read: bool = False) -> sqlite3.Connection:
    """A connection to the ledger in `directory`, with its tables up to date.

    One process opens at a time: two that create, migrate or quarantine it at the same time would
    interfere. With `to_read` a damaged file stays where it is.
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
                    raise (_kept if to_read else _quarantine)(path, error) from error
                if isinstance(error, sqlite3.Error):
                    raise storage_error(error, path) from error
                raise
    return connection


def open_to_read(directory: Path) -> sqlite3.Connection:
    """A connection for a reader, which also works if the directory is read-only.

    A reader never renames a damaged file: that is left to programs that write.
    """
    path = directory / FILE_NAME
    if not path.is_file() or can_create_in(directory):
        return open_connection(directory, to_read=True)
    connection = connect(path, uri=read_only_uri(path))
    try:
        if (version := read_version(connection, path)) != len(MIGRATIONS):
            raise StorageError(
                f"{path} has format {version} and must be updated to {len(MIGRATIONS)} first, but "
                f"{directory} is read-only; copy it to a directory that you can write to"
            )
        check_schema(connection)
    except BaseException as error:
        connection.close()
        if is_damage(error):
            raise _kept(path, error) from error
        if isinstance(error, sqlite3.Error):
            raise storage_error(error, path) from error
        raise
    return connection


def connect(path: Path, *, uri: str = "") -> sqlite3.Connection:
    """A connection with explicit transactions and foreign keys, which has read nothing yet."""
    connection = sqlite3.connect(
        uri or path, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=bool(uri)
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def checkpoint(directory: Path) -> None:
    """Move what killed processes left in the write-ahead log to the ledger's file.

    SQLite reads both, but people copy one file. Errors are ignored: they are reported when the
    ledger is opened.
    """
    path = directory / FILE_NAME
    if companion_path(path, WRITE_AHEAD_LOG) not in pending_companions(path):
        return
    with contextlib.suppress(sqlite3.Error), closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def retire_damaged(connection: sqlite3.Connection, path: Path, error: Exception) -> StorageError:
    """The error to raise when an open ledger turns out to be damaged; closes the connection."""
    with _lock(path), closing(connection):
        if _is_sound(path):
            return StorageError(f"{path} could not be read: {error}; run the command again")
        return _quarantine(path, error)


def _kept(path: Path, error: BaseException) -> CorruptFileError:
    """The error of a reader, which leaves a damaged file as it is."""
    return CorruptFileError(
        f"the ledger {path} is damaged ({describe_damage(error)}); it was not changed: restore it "
        "from a copy, or tune something, which puts it aside and starts a new one"
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if 0 < (version := read_version(connection, path)) < len(MIGRATIONS):
        log.info("updating %s from format %d to %d", path, version, len(MIGRATIONS))
    if path.stat().st_size <= _LARGEST_QUICK_CHECK_BYTES:
        check_pages(connection)
    network = is_network_file_system(path)
    if network:
        log.warning(
            "%s is on a network file system (%s); writing is slower, and safe from one host only",
            path,
            network,
        )
    _set_journal_mode(connection, "delete" if network else "wal", path)
    migrate(connection)
    check_schema(connection)


def _set_journal_mode(connection: sqlite3.Connection, wanted: str, path: Path) -> None:
    (mode,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    if mode != wanted:
        log.warning("%s keeps journal mode %s; %s is not possible there", path, mode, wanted)
    # Under WAL, NORMAL loses no commit when a process dies, and only a power cut can lose the last.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")


def check_pages(connection: sqlite3.Connection) -> None:
    """Let SQLite check every page; `DamagedError` says what it found."""
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


def _quarantine(path: Path, error: BaseException) -> CorruptFileError:
    # Connections are closed afterwards: on closing, SQLite would move the write-ahead log into the
    # damaged file and delete it, which it does not do to a renamed file.
    aside = quarantine(path, companions=_COMPANIONS)
    return CorruptFileError(
        f"the ledger {path} is damaged ({describe_damage(error)}); it was renamed to "
        f"{aside.name}, and the next run starts a new one"
    )


def _lock(path: Path) -> FileLock:
    return FileLock(path.with_name("ledger.lock"), on_wait=log.info)


# An open ledger file: transactions, queries, and what is done about rows that cannot be read.

T = TypeVar("T")


class LedgerFile:
    """The file of a `Ledger`, open for one thread."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, clock: Clock, *, to_read: bool = False
    ) -> None:
        self._connection = connection
        self._to_read = to_read
        self._clock = clock
        self._skipped: set[tuple[str, str]] = set()
        self._written: set[str] = set()
        """Ids of candidates and protocols in the file, valid while no other process writes."""
        self._seen_version = -1
        """SQLite's counter of writes by other processes."""
        self.path = path

    @classmethod
    def open(cls, directory: Path, *, clock: Clock = utc_now) -> Self:
        """Open the ledger in `directory`; both are created if they do not exist."""
        return cls(open_connection(directory), directory / FILE_NAME, clock)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Open the ledger for reading; the directory may be read-only."""
        return cls(open_to_read(directory), directory / FILE_NAME, utc_now, to_read=True)

    @classmethod
    def in_memory(cls, *, clock: Clock = utc_now) -> Self:
        """An empty ledger without a file, for work whose facts are sent to another ledger."""
        connection = connect(Path(":memory:"))
        migrate(connection)
        return cls(connection, Path(":memory:"), clock)

    def close(self) -> None:
        """Close the file; further calls fail. All writes are then in the file itself."""
        with suppress(sqlite3.Error):  # closed already, or a reader is in the way
            # SQLite does this itself if no other process has the file open.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _insert_once(self, table: str, parents: Sequence[rows.Row]) -> None:
        new = [row for row in parents if row["id"] not in self._written]
        rows.insert(self._connection, table, new)
        self._written.update(row["id"] for row in new)

    def _now(self) -> str:
        return timestamp(self._clock())

    def rows_of(
        self, query: str, values: tuple[object, ...] | dict[str, object] = ()
    ) -> list[dict[str, Any]]:
        """The rows of a query of this package."""
        return self._select(query, values)

    def _select(
        self, query: str, values: tuple[object, ...] | dict[str, object] = ()
    ) -> list[dict[str, Any]]:
        with self._as_storage_errors():
            try:
                return [dict(row) for row in self._connection.execute(query, values)]
            except sqlite3.OperationalError as error:
                if primary_code(error):
                    raise
            # A text that is not UTF-8 makes its row unreadable, not the query.
            with row_checks.lenient_texts(self._connection):
                return [dict(row) for row in self._connection.execute(query, values)]

    def _readable(
        self, table: str, found: Iterable[dict[str, Any]], read: Callable[[rows.Row], T]
    ) -> list[T]:
        """The records of rows; unreadable rows, from a merge or a fault, are skipped."""
        records: list[T] = []
        for row in found:
            try:
                row_checks.check_texts(row)
                records.append(read(row))
            except row_checks.UNREADABLE as error:
                self._skip_row(table, str(row.get("id", row.get("problem", ""))), error)
        return records

    def _skip_row(self, table: str, id: str, error: Exception) -> None:
        if (table, id) not in self._skipped:
            self._skipped.add((table, id))
            log.warning(
                "%s has a row of %s that cannot be read and is skipped: %s (%s)",
                *(self.path, table, quoted(id), row_checks.reason_of(error)),
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within the block, all writes are one transaction.

        Other processes wait for the file meanwhile, so nothing slow belongs inside.
        """
        if self._connection.in_transaction:
            yield
            return
        try:
            with self._as_storage_errors(), transaction(self._connection):
                self._check_for_other_writers()
                yield
        except BaseException:
            self._written.clear()
            raise

    def _check_for_other_writers(self) -> None:
        """Forget known rows if another process has written, since it may have deleted some."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._seen_version:
            self._seen_version = version
            self._written.clear()

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OverflowError as error:
            raise StorageError(f"{self.path} cannot hold a number of a record: {error}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) or is_damage(error):
                if self._to_read:
                    raise _kept(self.path, error) from error
                raise retire_damaged(self._connection, self.path, error) from error
            raise storage_error(error, self.path) from error
