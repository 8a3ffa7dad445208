"""SQLite files that may be damaged, or somebody else's: what damage is, and how to open them.

A database does not come alone. SQLite obeys the journal that lies beside it, and a journal may name
one more file, which SQLite deletes when it has undone what the journal says. A file of somebody
else is therefore read without what lies beside it, or from a copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from urllib.parse import quote

from skipjack.errors import CorruptFileError, StorageError
from skipjack.storage.directory import can_create_in

MAGIC = b"SQLite format 3\0"
WRITE_AHEAD_LOG = "-wal"
JOURNAL = "-journal"
_COMPANIONS = (WRITE_AHEAD_LOG, JOURNAL)
"""What a writer has not yet brought into the file itself."""
_NAMES_ANOTHER_FILE = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that is part of a transaction over several files."""
_OWN_MARK = "-mj"
"""How SQLite names the file that holds such a transaction together, after the first database."""
_LONGEST_NAME = 1 << 16
_SMALLEST_LIMIT = 1 << 20
"""Bytes of a value that are allowed however small the file is."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)


class DamagedError(Exception):
    """What a check of a file found."""


def primary_code(error: BaseException) -> int:
    """SQLite's code for an error; 0 for errors of the Python layer, which have none."""
    # Extended codes keep the primary one in their low byte.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: BaseException) -> bool:
    """Whether a file itself is broken, as opposed to the disk, a lock or the statement.

    Python decodes the names and messages that SQLite gives it: damage in them is a
    UnicodeDecodeError, and damage in a text an OperationalError without a code.
    """
    if isinstance(error, DamagedError | UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.Error):
        return False
    return primary_code(error) in _DAMAGE or str(error).startswith("Could not decode to UTF-8")


def damage_in_words(error: BaseException) -> str:
    """What is wrong with a damaged file, for a sentence about it."""
    return "a text in it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def beside(path: Path, suffix: str) -> Path:
    """Where SQLite looks for a file that belongs to `path`: links are followed first."""
    place = Path(os.path.realpath(path))
    return place.with_name(place.name + suffix)


def unfinished(path: Path) -> list[Path]:
    """Files beside a database that belong to its content."""
    return [each for suffix in _COMPANIONS if _has_content(each := beside(path, suffix))]


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def check_journal(path: Path) -> bool:
    """Whether `path` has a journal, which SQLite rolls back when it opens the file for writing.

    `CorruptFileError` if the journal names another file than SQLite's own: SQLite would delete it.
    """
    journal = beside(path, JOURNAL)
    named = _named_by(journal)
    own = os.fsencode(os.path.realpath(path)) + _OWN_MARK.encode()
    if named is not None and not named.startswith(own):
        raise _dangerous(path, journal, named)
    return _has_content(journal)


def _named_by(journal: Path) -> bytes | None:
    """The other file that a journal names; empty if its name cannot be told."""
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
        "SQLite would delete; if the database came from somebody else, move the journal away"
    )


def read_only_uri(path: Path) -> str:
    """What to connect to for a database that is only read.

    Where SQLite cannot create its shared memory beside it, one that nobody uses is still readable.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    usable = beside(path, WRITE_AHEAD_LOG).exists() or can_create_in(path.parent)
    return uri if usable else f"{uri}&immutable=1"


def connect_immutable(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection to one file alone: nothing beside it is read, made or changed."""
    return suspicious(_connect(path, "mode=ro&immutable=1", any_thread), path)


def connect_copy(path: Path, scratch: Path) -> sqlite3.Connection:
    """A connection to a copy in `scratch`, with what a writer left beside the file brought in."""
    copy = copied(path, scratch)
    return suspicious(_connect(copy, "mode=rw"), copy)


def copied(path: Path, scratch: Path) -> Path:
    """A copy of a file and of what lies beside it, which SQLite may obey in `scratch`."""
    copy = scratch / "copy.sqlite"
    try:
        shutil.copyfile(path, copy)
        for each in unfinished(path):
            suffix = next(end for end in _COMPANIONS if each.name.endswith(end))
            shutil.copyfile(each, copy.with_name(copy.name + suffix))
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot read {path}: {reason}") from None
    journal = copy.with_name(copy.name + JOURNAL)
    # Of a copy no name is right: the true file's own would be deleted as well.
    if (named := _named_by(journal)) is not None:
        raise _dangerous(path, beside(path, JOURNAL), named)
    return copy


def _connect(path: Path, mode: str, any_thread: bool = False) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path.absolute()))}?{mode}"
    return sqlite3.connect(address, uri=True, check_same_thread=not any_thread)


def suspicious(connection: sqlite3.Connection, read: Path | None) -> sqlite3.Connection:
    """The connection, on its guard: the file may be anybody's.

    Its schema gets no say, its pages are looked at twice, and of a file that is only `read` no
    value is longer than the file.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    if read is not None:
        files = (read, *unfinished(read))
        longest = max(_SMALLEST_LIMIT, sum(each.stat().st_size for each in files))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, (1 << 31) - 1))
    return connection
