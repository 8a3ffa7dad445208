"""Whether a file is a bundle, whole, and sealed with the fleet's key; otherwise one sentence."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import MalformedError, NewerFormatError, StorageError
from skipjack.fleet.bundle.manifest import (
    FORMAT,
    Manifest,
    chained,
    entry_text,
    manifest_text,
)
from skipjack.fleet.seal import fingerprint, sealed
from skipjack.reading import numbered
from skipjack.storage.sqlite_files import MAGIC

APPLICATION = 0x534B4A42
"""What SQLite's header says whose file it is: ``SKJB``."""

SCHEMA = {
    "manifest": (
        "CREATE TABLE manifest (one INTEGER PRIMARY KEY, text TEXT NOT NULL, "
        "count INTEGER NOT NULL, head TEXT NOT NULL, seal TEXT NOT NULL)"
    ),
    "entries": (
        "CREATE TABLE entries (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "name TEXT NOT NULL, body BLOB NOT NULL, seal TEXT NOT NULL)"
    ),
    "entries_by_name": "CREATE UNIQUE INDEX entries_by_name ON entries (kind, name)",
}

ENVIRONMENT = (
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM),
)
"""What SQLite says if the fault is not in the file."""

_ROLLBACK_JOURNAL = b"\1\1"
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class State:
    """What a manifest's row says."""

    manifest: Manifest
    count: int
    head: str


def damaged(path: Path, what: str) -> StorageError:
    """The error for a bundle whose content is not what was sealed."""
    return StorageError(
        f"{path} is truncated, damaged or was changed after it was sealed ({what}), nothing of it "
        "was used; copy it again from where it was made"
    )


def check_header(path: Path) -> None:
    """Refuse what is no bundle before SQLite sees it."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise StorageError(f"cannot read the bundle {path}: {error.strerror}") from error
    if not head:
        raise StorageError(f"{path} is empty, so it is no bundle; copy it again")
    foreign = not head.startswith(MAGIC[: len(head)])
    if len(head) == 100 and int.from_bytes(head[68:72], "big") != APPLICATION:
        foreign = True
    if foreign:
        raise StorageError(
            f"{path} is not a bundle; `skipjack bundle export` and `bundle evaluate` make them"
        )
    if len(head) < 100 or head[18:20] != _ROLLBACK_JOURNAL:
        raise damaged(path, "its header")


def check_all(connection: sqlite3.Connection, path: Path, key: bytes) -> State:
    """Check every page, the manifest and every entry."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} is a bundle of format {version}, this Skipjack knows up to {FORMAT}; "
            "use the version that made it"
        )
    (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise damaged(path, " ".join(str(answer).split()))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size != pages * page_bytes:
        # SQLite takes the end of a last page that was cut off for zeros.
        raise damaged(path, f"it should have {pages * page_bytes} bytes")
    found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    if dict(found) != SCHEMA or len(found) != len(SCHEMA):
        raise damaged(path, "its tables are others")
    state = _check_manifest(connection, path, key)
    _check_entries(connection, path, key, state)
    return state


def _check_manifest(connection: sqlite3.Connection, path: Path, key: bytes) -> State:
    rows = connection.execute("SELECT text, count, head, seal FROM manifest").fetchall()
    if len(rows) != 1:
        raise damaged(path, "its manifest")
    text, count, head, whole = rows[0]
    types = (type(text), type(count), type(head), type(whole))
    if types != (str, int, str, str):
        raise damaged(path, "its manifest")
    try:
        manifest = Manifest.of(text)
    except MalformedError as error:
        raise damaged(path, f"its {error}") from None
    if manifest.key != fingerprint(key) and re.fullmatch("[0-9a-f]{12}", str(manifest.key)):
        raise StorageError(
            f"{path} is sealed with another fleet's key ({manifest.key}; the key here is "
            f"{fingerprint(key)}), nothing of it was used; copy the key file of the fleet that it "
            "belongs to and name it with --key or SKIPJACK_FLEET_KEY"
        )
    if not sealed(key, manifest_text(text, count, head), whole):
        raise damaged(path, "its manifest has another seal")
    return State(manifest, count, head)


def _check_entries(connection: sqlite3.Connection, path: Path, key: bytes, state: State) -> None:
    head, at = "", 0
    query = "SELECT position, kind, name, body, seal FROM entries ORDER BY position"
    for position, kind, name, body, entry_seal in connection.execute(query):
        at += 1
        types = (type(kind), type(name), type(body), type(entry_seal))
        if position != at or types != (str, str, bytes, str) or not _HEX.fullmatch(entry_seal):
            raise damaged(path, f"entry {at}")
        if not sealed(key, entry_text(state.manifest.id, at, kind, name, body), entry_seal):
            raise damaged(path, f"entry {at} has another seal")
        head = chained(head, entry_seal)
    if at != state.count or head != state.head:
        raise damaged(path, f"it has {numbered(at, 'entry')}, its manifest says {state.count}")
