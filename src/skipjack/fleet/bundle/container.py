"""The file: sealed entries in SQLite, with a manifest whose seal covers all of them in order.

::

    manifest   one row: JSON text, how many entries there are, the chain of their seals, its seal
    entries    position (1, 2, ...), kind (task, artifact, outcome), name, body, seal

Each seal is an HMAC-SHA256 with the fleet's key. An entry is appended in one transaction together
with the manifest's new count, chain and seal, so that the file is whole after every one of them.
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
from skipjack.fleet.bundle import checking
from skipjack.fleet.bundle.manifest import FORMAT, Manifest, chained, entry_text, manifest_text
from skipjack.fleet.seal import seal, sealed
from skipjack.storage.sqlite_files import check_journal, primary_code, suspicious
from skipjack.storage.transaction import is_full, transaction

_BUSY_S = 1.0


class Part(StrEnum):
    """What an entry is."""

    TASK = "task"
    """A round of a job; its name is the job's id."""
    ARTIFACT = "artifact"
    """Machine code; its name is its digest."""
    OUTCOME = "outcome"
    """What came of a task; its name is the job's id."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a bundle. Kind and name together are there once."""

    kind: Part
    name: str
    body: bytes


class Bundle:
    """An open bundle. What is read from it was sealed with the key, or `StorageError` is raised.

    One process may have it open for writing, and none reads it then.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, key: bytes, state: checking.State
    ) -> None:
        self._connection = connection
        self._key = key
        self._count = state.count
        self._head = state.head
        self.path = path
        self.manifest = state.manifest

    @classmethod
    def create(
        cls, path: Path, manifest: Manifest, key: bytes, *, at: Path | None = None
    ) -> Bundle:
        """A new bundle without entries, open for writing; nothing may be at `path`.

        It is made at another place if `at` names one, and whoever does so renames it.
        """
        with _sentences(path):
            connection = _connect(at or path, "rwc")
            with _closed_on_failure(connection):
                _claim_file(connection)
                connection.execute(f"PRAGMA application_id = {checking.APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                with transaction(connection):
                    for statement in checking.SCHEMA.values():
                        connection.execute(statement)
                    text = manifest.text()
                    whole = seal(key, manifest_text(text, 0, ""))
                    row = (1, text, 0, "", whole)
                    connection.execute("INSERT INTO manifest VALUES (?, ?, ?, ?, ?)", row)
            return cls(connection, path, key, checking.State(manifest, 0, ""))

    @classmethod
    def open(cls, path: Path, key: bytes, *, writable: bool = False) -> Bundle:
        """An existing bundle, every byte of whose content has been checked."""
        checking.check_header(path)
        interrupted = check_journal(path)  # a process died in the middle of writing
        with _sentences(path):
            connection = _connect(path, "rw" if writable or interrupted else "ro")
            with _closed_on_failure(connection):
                if writable:
                    _claim_file(connection)
                state = checking.check_all(connection, path, key)
            return cls(connection, path, key, state)

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries, all or none of them; they are on disk when this returns."""
        count, head = self._count, self._head
        with _sentences(self.path), transaction(self._connection):
            for entry in entries:
                count += 1
                entry_seal = self._seal(count, entry)
                head = chained(head, entry_seal)
                row = (count, str(entry.kind), entry.name, entry.body, entry_seal)
                self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            whole = seal(self._key, manifest_text(self.manifest.text(), count, head))
            self._connection.execute(
                "UPDATE manifest SET count = ?, head = ?, seal = ?", (count, head, whole)
            )
        self._count, self._head = count, head

    def names(self, kind: Part) -> list[str]:
        """Of all entries of a kind, in order."""
        query = "SELECT name FROM entries WHERE kind = ? ORDER BY position"
        with _sentences(self.path):
            return [name for (name,) in self._connection.execute(query, (str(kind),))]

    def body(self, kind: Part, name: str) -> bytes:
        """What an entry holds."""
        query = "SELECT position, body, seal FROM entries WHERE kind = ? AND name = ?"
        with _sentences(self.path):
            row = self._connection.execute(query, (str(kind), name)).fetchone()
        if row is None:
            raise checking.damaged(self.path, f"{kind} {name} is missing")
        position, body, entry_seal = row
        if not sealed(self._key, self._text(position, Entry(kind, name, body)), entry_seal):
            raise checking.damaged(self.path, f"{kind} {name} has another seal")
        return bytes(body)

    def close(self) -> None:
        """Let go of the file; further calls fail."""
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

    def _seal(self, position: int, entry: Entry) -> str:
        return seal(self._key, self._text(position, entry))

    def _text(self, position: int, entry: Entry) -> str:
        return entry_text(self.manifest.id, position, entry.kind, entry.name, entry.body)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=_BUSY_S, isolation_level=None, uri=True)
    return suspicious(connection, path if mode == "ro" else None)


def _claim_file(connection: sqlite3.Connection) -> None:
    """Keep all others out until it is closed."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    # A write-ahead log would keep the newest results in a second file, which nobody would copy.
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
def _sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite says into one sentence about the bundle."""
    try:
        yield
    except UnicodeDecodeError:
        raise checking.damaged(path, "a name in its tables is not UTF-8") from None
    except sqlite3.Error as error:
        code = primary_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StorageError(
                f"another process is writing {path}; wait until it is done, or choose another name"
            ) from error
        if is_full(error):
            raise StorageError(
                f"disk full: no room to write {path}; what it held before is whole: free some "
                "space and run the same command again"
            ) from error
        if code in checking.ENVIRONMENT:
            raise StorageError(
                f"cannot read or write {path}: {error}; check that its directory is there and "
                "writable, and the disk"
            ) from error
        raise checking.damaged(path, str(error)) from error
