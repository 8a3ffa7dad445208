"""Kernel databases (``.skk``): precompiled winners in one file that ships with a program.

They are SQLite files of format 3: ``kernels`` has a row for each problem and device, ``artifacts``
the machine code by its SHA-256, once for all kernels that share it. A program that opens one runs
code from it, as from a shared library: open only files that you trust. Digests are checked before
code is returned.
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

from skipjack.bank.evidence import KnownGain
from skipjack.errors import (
    CorruptFileError,
    MalformedError,
    MissingFileError,
    NewerFormatError,
    StorageError,
)
from skipjack.reading import Field, read_json
from skipjack.storage import atomic_replacement, connect_immutable

FORMAT = 3
"""Since 2, a kernel of a plug-in's operation has the digest of the operation's definition; since 3,
a kernel has its gain as called from Python."""
_APPLICATION = 0x534B4B31
"""The application id in SQLite's header: ``SKK1``."""
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
    """The device as on the command line: ``sm_90/132``."""
    compat: str
    """`Device.compat_key`: the devices that can load its code."""
    solver: str
    solver_version: int
    config: Mapping[str, Any]
    artifact: str
    """The SHA-256 of its code."""
    symbol: str
    abi: str
    slots: tuple[str | int, ...]
    time_ns: float | None = None
    vendor: str = ""
    vendor_ns: float | None = None
    definition: str = ""
    """The digest of the operation's definition, if a plug-in defines the operation."""
    as_called: Mapping[str, float | None] | None = None
    """The gain over a library, both called from Python, as ``{ratio, low, high}``; None if it was
    not measured, as for long calls and on GPUs."""

    @property
    def recommended(self) -> bool:
        """Whether it is at least as fast as the library that it was compared with.

        Decided by the gain as called from Python if that is known, else by the times of native
        calls.
        """
        called = (self.as_called or {}).get("ratio")
        if called is not None:
            return called >= 1.0
        return self.vendor_ns is None or self.time_ns is None or self.time_ns <= self.vendor_ns


def gain_of(told: object) -> dict[str, float | None] | None:
    """The gain in an entry or a job's result, as records keep it; None if it is not a gain."""
    gain = KnownGain.read(told)
    return gain.record() if gain and gain.ratio is not None else None


def write_kernel_db(path: Path, kernels: Iterable[tuple[KernelRecord, bytes]]) -> int:
    """Write a database with these kernels and their code, atomically; returns their number."""
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
    """An open database, which is not changed. Several threads may use it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """`connection` must be usable by any thread."""
        self._connection, self.path = connection, path
        self._reading = Lock()

    @classmethod
    def open(cls, path: Path) -> KernelDb:
        """Open a database; `StorageError` if it is not one, is damaged, or of a newer format."""
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
        """The kernel of a problem for this device, or for another one whose code runs here.

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
        """The names of the devices for which the file has a kernel of this problem."""
        query = "SELECT device FROM kernels WHERE problem = ? ORDER BY device"
        with _sentences(self.path), self._reading:
            return [str(name) for (name,) in self._connection.execute(query, (problem,))]

    def needs(self, problem: str) -> list[str]:
        """The compat keys of the code for a problem."""
        query = "SELECT DISTINCT compat FROM kernels WHERE problem = ? ORDER BY compat"
        with _sentences(self.path), self._reading:
            return [str(compat) for (compat,) in self._connection.execute(query, (problem,))]

    def records(self) -> Iterator[KernelRecord]:
        """All kernels, sorted by problem and device."""
        with _sentences(self.path), self._reading:
            query = "SELECT record FROM kernels ORDER BY problem, device"
            found = self._connection.execute(query).fetchall()
        yield from (self._record(text) for (text,) in found)

    def code(self, record: KernelRecord) -> bytes:
        """The machine code of a kernel, after checking its digest."""
        row = self._row("SELECT data FROM artifacts WHERE digest = ?", record.artifact)
        data = row[0] if row else None
        # SQLite holds a value of any type in any column.
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != record.artifact:
            raise CorruptFileError(
                f"{self.path} is damaged: the code of {record.problem} does not match its digest; "
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
        """Close the file."""
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
        raise StorageError(f"{path} is not a kernel database")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} has format {version}, this Skipjack reads up to {FORMAT}; update Skipjack"
        )


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Within the block, errors of SQLite become `CorruptFileError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise CorruptFileError(f"{path} cannot be used as a kernel database: {error}") from None
    except UnicodeDecodeError:
        raise CorruptFileError(
            f"{path} cannot be used as a kernel database: a name in it is not UTF-8; export it "
            "again"
        ) from None
