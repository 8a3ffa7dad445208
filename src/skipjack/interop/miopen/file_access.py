"""Content of database files: bytes, unpacked if necessary, and SQLite files.

SQLite files are read without a trace and written in one step.
"""

from __future__ import annotations

import bz2
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError
from skipjack.storage import (
    MAGIC,
    atomic_replacement,
    connect_copy,
    connect_immutable,
    disk_full,
    pending_companions,
)

# The content of a database file, unpacked if it is compressed.

BZIP2 = b"BZh"
LARGEST = 1 << 28
"""Maximum size of an unpacked database; shipped ones have up to 60 MB."""
ALWAYS = 1 << 24
"""Unpacked size that is allowed for any packed size."""
MOST_TIMES = 100
"""Maximum ratio of larger unpacked sizes to packed sizes; shipped files have up to 20."""
_STEP = 1 << 20
_GIVEN = 1 << 14
_POINTER = b"version https://git-lfs"


def file_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is packed; errors are one sentence."""
    data = _read(path)
    if data.startswith(_POINTER):
        raise StorageError(
            f"{path} is a Git LFS pointer, not the database; fetch the database with git lfs pull"
        )
    if data.startswith(BZIP2):
        try:
            return unpacked(data, LARGEST)
        except (OSError, EOFError, ValueError) as error:
            raise CorruptFileError(
                f"{path} cannot be unpacked: {error}; fetch or pack it again"
            ) from None
    return data


def unpacked(data: bytes, most: int) -> bytes:
    """Unpack bzip2 data; `ValueError` if the result is too large, `EOFError` if it is truncated."""
    return b"".join(unpacked_parts(data, most))


def unpacked_parts(data: bytes, most: int) -> Iterator[bytes]:
    """Unpack all streams of the data, part by part; errors as in `unpacked`."""
    bound = _Bound(len(data), most)
    stream, at = bz2.BZ2Decompressor(), 0
    while at < len(data) or not stream.needs_input:
        # In small chunks: unused data of a stream is copied, and there may be many streams.
        chunk = data[at : at + _GIVEN] if stream.needs_input else b""
        at += len(chunk)
        yield bound.checked(stream.decompress(chunk, _STEP))
        if stream.eof:
            at -= len(stream.unused_data)
            if not data.startswith(BZIP2, at):
                return  # padding, which the bz2 module ignores as well
            stream = bz2.BZ2Decompressor()
    if data:
        raise EOFError("it is truncated")


class _Bound:
    """The limit of the unpacked size for a packed size."""

    def __init__(self, packed_bytes: int, most: int) -> None:
        self._packed = packed_bytes
        self._most = most
        self._so_far = 0

    def checked(self, part: bytes) -> bytes:
        """The part; `ValueError` if the limit is exceeded."""
        self._so_far += len(part)
        if self._so_far > self._most:
            raise ValueError(f"it has more than {self._most:,} bytes when unpacked")
        if self._so_far > max(ALWAYS, MOST_TIMES * self._packed):
            raise ValueError(
                f"it has more than {MOST_TIMES} times its {self._packed:,} bytes when unpacked, "
                f"and more than {ALWAYS:,}"
            )
        return part


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise StorageError(f"{path} is a directory; give a file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StorageError(f"the file {path} does not exist") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None


# SQLite files of other programs: read without a trace, and written in one step.

_HEAD = 64


@contextmanager
def open_for_reading(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """A connection that changes neither the file nor its directory; messages call it `what`.

    A file with a write-ahead log or a journal is read as a copy, so that their content is included
    and the directory may be read-only.
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
    return connect_copy(path, scratch) if pending_companions(path) else connect_immutable(path)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""  # reading the complete file reports the error


def _check_head(data: bytes, path: Path, what: str) -> None:
    if not data:
        raise CorruptFileError(f"{path} is empty, so it is not a {what}")
    if not data.startswith(MAGIC):
        raise CorruptFileError(f"{path} is not a {what}: it is not an SQLite file")


@contextmanager
def open_for_writing(path: Path, schema: Sequence[str], what: str) -> Iterator[sqlite3.Connection]:
    """A connection to a new file with these tables, which replaces `path` at the end."""
    _refuse_to_pull_away(path)
    with atomic_replacement(path) as temporary, _sentences(path, what):
        temporary.touch(exist_ok=False)  # reports errors better than SQLite
        with closing(sqlite3.connect(temporary)) as connection:
            # After a failure the file is deleted; a journal would be left behind.
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
    """`StorageError` if a log exists, as SQLite would apply it to the new file."""
    if beside := pending_companions(path):
        raise StorageError(
            f"cannot replace {path}: {beside[0].name} contains changes that are not "
            "yet in it; stop the program that writes it, or choose another name"
        )


@contextmanager
def _sentences(path: Path, what: str) -> Iterator[None]:
    """Convert errors of SQLite to messages of one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise disk_full(path) from None
        raise CorruptFileError(f"{path} cannot be used as a {what}: {error}") from None
    except UnicodeEncodeError:
        raise StorageError(
            f"{path} cannot contain bytes that are not UTF-8; write a text database instead"
        ) from None
    except UnicodeDecodeError:
        raise CorruptFileError(
            f"{path} cannot be used as a {what}: a name in it is not UTF-8; fetch it again"
        ) from None


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The names of the columns of a table; empty if the table does not exist.

    A view does not count as a table, as it may compute endless rows.
    """
    plain = "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND type = 'table'"
    if connection.execute(plain, (table,)).fetchone() is None:
        return ()
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return tuple(name for (name,) in rows)
