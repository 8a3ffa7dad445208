"""Kernel databases (``.skk``): precompiled winners in one file that ships with a program.

An SQLite file of format 3: ``kernels`` has a row for each problem and device, ``artifacts`` the
machine code by its SHA-256, once for all kernels that share it. A program that opens one runs code
from it, as from a shared library: open only what you trust. Digests are checked before code is
given out.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from skipjack.bank.entry_evidence import KnownGain
from skipjack.errors import (
    CorruptFileError,
    MalformedError,
    MissingFileError,
    NewerFormatError,
    StorageError,
)
from skipjack.reading import Field, read_json
from skipjack.storage import atomic_replacement
from skipjack.storage.sqlite_files import connect_immutable

FORMAT = 3
"""Since 2 a kernel of a plug-in's operation says which definition of it it computes, since 3 a
kernel says its gain as called from Python."""
_APPLICATION = 0x534B4B31
"""What SQLite's header says whose file it is: ``SKK1``."""
_SCHEMA = (
    "CREATE TABLE artifacts (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE kernels (problem TEXT NOT NULL, device TEXT NOT NULL, compat TEXT NOT NULL, "
    "artifact TEXT NOT NULL REFERENCES artifacts (digest), record TEXT NOT NULL, "
    "PRIMARY KEY (problem, device)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A winner, and how it is launched."""

    problem: str
    device: str
    """As on the command line: ``sm_90/132``."""
    compat: str
    """`Device.compat_key`: where its code can load."""
    solver: str
    solver_version: int
    config: Mapping[str, Any]
    artifact: str
    """SHA-256 of its code."""
    symbol: str
    abi: str
    slots: tuple[str | int, ...]
    time_ns: float | None = None
    vendor: str = ""
    vendor_ns: float | None = None
    definition: str = ""
    """Digest of the operation's definition, if the operation is of a plug-in."""
    as_called: Mapping[str, float | None] | None = None
    """The gain over a library, both called from Python, as ``{ratio, low, high}``; None where it
    was not measured, as of long calls and on GPUs."""

    @property
    def recommended(self) -> bool:
        """Whether a caller gets at least the speed of the library that it was compared with.

        By the gain as called from Python where that is known, else by the times of native calls.
        """
        called = (self.as_called or {}).get("ratio")
        if called is not None:
            return called >= 1.0
        return self.vendor_ns is None or self.time_ns is None or self.time_ns <= self.vendor_ns


def gain_of(told: object) -> dict[str, float | None] | None:
    """What a bank or a job says of a gain, as records keep it; None if that is no gain."""
    gain = KnownGain.read(told)
    return gain.record() if gain and gain.ratio is not None else None


def write_kernel_db(path: Path, kernels: Iterable[tuple[KernelRecord, bytes]]) -> int:
    """Write a database with these kernels and their code; gives how many. All of it or nothing."""
    with (
        atomic_replacement(path) as temporary,
        _sentences(path),
        closing(sqlite3.connect(temporary)) as connection,
    ):
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for statement in _SCHEMA:
            connection.execute(statement)
        count = sum(_insert(connection, record, data) for record, data in kernels)
        connection.commit()
    return count


def _insert(connection: sqlite3.Connection, record: KernelRecord, data: bytes) -> int:
    if hashlib.sha256(data).hexdigest() != record.artifact:
        raise StorageError(f"the code of {record.problem} does not match its digest")
    connection.execute("INSERT OR IGNORE INTO artifacts VALUES (?, ?)", (record.artifact, data))
    fields = {name: getattr(record, name) for name in KernelRecord.__slots__}
    text = json.dumps({**fields, "config": dict(record.config)}, sort_keys=True)
    row = (record.problem, record.device, record.compat, record.artifact, text)
    connection.execute("INSERT OR REPLACE INTO kernels VALUES (?, ?, ?, ?, ?)", row)
    return 1


class KernelDb:
    """An open database; nothing of it is changed. Several threads may use it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """`connection` may be used by any thread."""
        self._connection, self.path = connection, path
        self._reading = Lock()

    @classmethod
    def open(cls, path: Path) -> KernelDb:
        """`StorageError` in one sentence if it is none, damaged, or of a newer format."""
        if not path.is_file():
            raise MissingFileError(f"there is no kernel database {path}")
        with _sentences(path):
            connection = connect_immutable(path, any_thread=True)
            try:
                _check(connection, path)
            except BaseException:
                connection.close()
                raise
        return cls(connection, path)

    def find(self, problem: str, device: str, loadable: Sequence[str]) -> KernelRecord | None:
        """The kernel of a problem: tuned for this device, or else for one whose code runs here.

        `loadable` are the compat keys of such code, the best first.
        """
        places = ", ".join("?" * len(loadable))
        query = (
            f"SELECT record FROM kernels WHERE problem = ? AND compat IN ({places}) "
            "ORDER BY device = ? DESC, compat DESC, device LIMIT 1"
        )
        row = self._row(query, problem, *loadable, device)
        return self._record(row[0]) if row else None

    def devices(self, problem: str) -> list[str]:
        """The names of those that the file has a kernel of this problem for."""
        query = "SELECT device FROM kernels WHERE problem = ? ORDER BY device"
        with _sentences(self.path), self._reading:
            return [str(name) for (name,) in self._connection.execute(query, (problem,))]

    def needs(self, problem: str) -> list[str]:
        """The compat keys of the code that the file has for a problem."""
        query = "SELECT DISTINCT compat FROM kernels WHERE problem = ? ORDER BY compat"
        with _sentences(self.path), self._reading:
            return [str(compat) for (compat,) in self._connection.execute(query, (problem,))]

    def records(self) -> Iterator[KernelRecord]:
        """All of them, by problem and device."""
        with _sentences(self.path), self._reading:
            query = "SELECT record FROM kernels ORDER BY problem, device"
            found = self._connection.execute(query).fetchall()
        yield from (self._record(text) for (text,) in found)

    def code(self, record: KernelRecord) -> bytes:
        """Machine code whose digest was checked."""
        row = self._row("SELECT data FROM artifacts WHERE digest = ?", record.artifact)
        data = row[0] if row else None
        # SQLite holds a value of any type in any column.
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != record.artifact:
            raise CorruptFileError(
                f"{self.path} is damaged: the code of {record.problem} is not what was put there; "
                "export it again"
            )
        return data

    def _row(self, query: str, *values: str) -> tuple[Any, ...] | None:
        with _sentences(self.path), self._reading:
            row: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return row

    def _record(self, text: object) -> KernelRecord:
        try:
            return read_json(Field(text, "record").text()).of(KernelRecord)
        except MalformedError as error:
            raise CorruptFileError(f"{self.path} is damaged: {error}; export it again") from None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> KernelDb:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        raise StorageError(f"{path} is no kernel database")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} has format {version}, this Skipjack reads up to {FORMAT}; update Skipjack"
        )


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """What SQLite says, in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise CorruptFileError(f"{path} cannot be used as a kernel database: {error}") from None
    except UnicodeDecodeError:
        raise CorruptFileError(
            f"{path} cannot be used as a kernel database: a name in it is not UTF-8; export it "
            "again"
        ) from None
