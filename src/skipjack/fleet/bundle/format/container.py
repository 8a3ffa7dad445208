"""A bundle: signed entries in SQLite, and a manifest whose signature covers them in order.

::

    manifest   one row: JSON text, number of entries, chain of their signatures, its signature
    entries    position (1, 2, ...), kind (task, artifact, outcome), name, body, signature

Each signature is an HMAC-SHA256 with the fleet's key. An entry is appended in one transaction with
the manifest's new count, chain and signature, so that the file is whole after each transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from skipjack.errors import StorageError
from skipjack.fleet.bundle.format import bundle_manifest
from skipjack.fleet.bundle.format.bundle_manifest import (
    FORMAT,
    BundleManifest,
    chained,
    entry_text,
    manifest_text,
)
from skipjack.fleet.signature import is_signed, sign
from skipjack.storage import check_journal, hardened, is_full, primary_code, transaction

_BUSY_S = 1.0


class EntryKind(StrEnum):
    """The kinds of entries."""

    TASK = "task"
    """A round of a job, named by the job's id."""
    ARTIFACT = "artifact"
    """Machine code, named by its digest."""
    OUTCOME = "outcome"
    """The outcome of a task, named by the job's id."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """An entry of a bundle. The pair of kind and name is unique."""

    kind: EntryKind
    name: str
    body: bytes


class Bundle:
    """An open bundle. Everything read from it was signed with the key, or `StorageError` is raised.

    One process may have it open for writing; no other process can read it then.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        key: bytes,
        state: bundle_manifest.BundleState,
    ) -> None:
        self._connection = connection
        self._key = key
        self._count = state.count
        self._head = state.head
        self.path = path
        self.manifest = state.manifest

    @classmethod
    def create(
        cls, path: Path, manifest: BundleManifest, key: bytes, *, at: Path | None = None
    ) -> Bundle:
        """Create a bundle without entries, open for writing; `path` must not exist.

        If `at` is given, the file is created there, and the caller renames it.
        """
        with _storage_errors(path):
            connection = _connect(at or path, "rwc")
            with _closed_on_failure(connection):
                _claim_file(connection)
                connection.execute(f"PRAGMA application_id = {bundle_manifest.APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                with transaction(connection):
                    for statement in bundle_manifest.SCHEMA.values():
                        connection.execute(statement)
                    text = manifest.text()
                    whole = sign(key, manifest_text(text, 0, ""))
                    row = (1, text, 0, "", whole)
                    connection.execute("INSERT INTO manifest VALUES (?, ?, ?, ?, ?)", row)
            return cls(connection, path, key, bundle_manifest.BundleState(manifest, 0, ""))

    @classmethod
    def open(cls, path: Path, key: bytes, *, writable: bool = False) -> Bundle:
        """Open an existing bundle and check all of its content."""
        bundle_manifest.check_header(path)
        interrupted = check_journal(path)  # a process died while it wrote
        with _storage_errors(path):
            connection = _connect(path, "rw" if writable or interrupted else "ro")
            with _closed_on_failure(connection):
                if writable:
                    _claim_file(connection)
                state = bundle_manifest.check_all(connection, path, key)
            return cls(connection, path, key, state)

    def append(self, entries: Sequence[BundleEntry]) -> None:
        """Add all entries or none; they are on disk when this returns."""
        count, head = self._count, self._head
        with _storage_errors(self.path), transaction(self._connection):
            for entry in entries:
                count += 1
                entry_signature = self._signature(count, entry)
                head = chained(head, entry_signature)
                row = (count, str(entry.kind), entry.name, entry.body, entry_signature)
                self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            whole = sign(self._key, manifest_text(self.manifest.text(), count, head))
            self._connection.execute(
                "UPDATE manifest SET count = ?, head = ?, seal = ?", (count, head, whole)
            )
        self._count, self._head = count, head

    def names(self, kind: EntryKind) -> list[str]:
        """The names of all entries of a kind, in order."""
        query = "SELECT name FROM entries WHERE kind = ? ORDER BY position"
        with _storage_errors(self.path):
            return [name for (name,) in self._connection.execute(query, (str(kind),))]

    def body(self, kind: EntryKind, name: str) -> bytes:
        """The body of an entry."""
        query = "SELECT position, body, seal FROM entries WHERE kind = ? AND name = ?"
        with _storage_errors(self.path):
            row = self._connection.execute(query, (str(kind), name)).fetchone()
        if row is None:
            raise bundle_manifest.damaged(self.path, f"{kind} {name} is missing")
        position, body, entry_signature = row
        if not is_signed(
            self._key, self._text(position, BundleEntry(kind, name, body)), entry_signature
        ):
            raise bundle_manifest.damaged(self.path, f"the signature of {kind} {name} is wrong")
        return bytes(body)

    def close(self) -> None:
        """Close the file; further calls fail."""
        self._connection.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _signature(self, position: int, entry: BundleEntry) -> str:
        return sign(self._key, self._text(position, entry))

    def _text(self, position: int, entry: BundleEntry) -> str:
        return entry_text(self.manifest.id, position, entry.kind, entry.name, entry.body)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=_BUSY_S, isolation_level=None, uri=True)
    return hardened(connection, path if mode == "ro" else None)


def _claim_file(connection: sqlite3.Connection) -> None:
    """Lock out other processes until the file is closed."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    # A write-ahead log would keep the newest results in a second file, which users do not copy.
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    with transaction(connection):
        connection.execute("PRAGMA user_version").fetchone()


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one sentence about the bundle."""
    try:
        yield
    except UnicodeDecodeError:
        raise bundle_manifest.damaged(path, "a name in its tables is not UTF-8") from None
    except sqlite3.Error as error:
        code = primary_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StorageError(
                f"another process is writing {path}; wait until it ends, or choose another name"
            ) from error
        if is_full(error):
            raise StorageError(
                f"disk full: cannot write {path}; its earlier content is intact; free some "
                "space and run the same command again"
            ) from error
        if code in bundle_manifest.ENVIRONMENT_ERRORS:
            raise StorageError(
                f"cannot read or write {path}: {error}; check that its directory exists and "
                "is writable, and check the disk"
            ) from error
        raise bundle_manifest.damaged(path, str(error)) from error
