"""The manifest of a bundle, and the checks that a file is a whole bundle, signed with the fleet's
key.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from skipjack.errors import MalformedError, NewerFormatError, StorageError, UsageError
from skipjack.fleet.signature import fingerprint, is_signed
from skipjack.reading import numbered, read_json
from skipjack.storage import MAGIC, timestamp, utc_now

# The manifest of a bundle, and the texts that its signatures cover.

FORMAT = 1
_SLICE = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


class BundleKind(StrEnum):
    """The two kinds of bundles."""

    JOBS = "jobs"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class JobSlice:
    """One of several disjoint parts of all jobs."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> JobSlice:
        """Parse ``1/4``, the first of four."""
        match = _SLICE.fullmatch(text)
        if not match or int(match[1]) > int(match[2]):
            raise UsageError(
                f"slice {text!r} is not of the form k/n with k from 1 to n; write for example 1/4"
            )
        return cls(int(match[1]), int(match[2]))

    def __contains__(self, job: int) -> bool:
        return job % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """The constant properties of a bundle."""

    kind: BundleKind
    label: str
    store: str
    """Identifies the store and the label that the jobs came from."""
    key: str
    """The fingerprint of the key that signs it."""
    slice: str = "1/1"
    source: str = ""
    """The id of the bundle of jobs that results belong to."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: str = field(default_factory=lambda: timestamp(utc_now()))
    format: int = FORMAT

    def text(self) -> str:
        """The manifest as JSON; `of` reads it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, text: str) -> BundleManifest:
        """Read what `text` wrote; `MalformedError` if it is anything else."""
        return read_json(text, "manifest").of(cls)


def entry_text(bundle: str, position: int, kind: str, name: str, body: bytes) -> str:
    """The text that an entry's signature covers; it is valid at this place of this bundle only."""
    return f"bundle {bundle} {position} {kind} {name} {hashlib.sha256(body).hexdigest()}"


def manifest_text(text: str, count: int, head: str) -> str:
    """The text that the manifest's signature covers: everything in the bundle, in order."""
    return f"manifest {hashlib.sha256(text.encode()).hexdigest()} {count} {head}"


def chained(head: str, entry_signature: str) -> str:
    """The chain of signatures, extended by one."""
    return hashlib.sha256(f"{head} {entry_signature}".encode()).hexdigest()


# Checks that a file is a whole bundle, signed with the fleet's key; errors are one sentence.

APPLICATION = 0x534B4A42
"""The application id in the SQLite header: ``SKJB``."""

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

ENVIRONMENT_ERRORS = (
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM),
)
"""Errors of SQLite whose cause is not in the file."""

_ROLLBACK_JOURNAL = b"\1\1"
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BundleState:
    """The content of the manifest's row."""

    manifest: BundleManifest
    count: int
    head: str


def damaged(path: Path, what: str) -> StorageError:
    """The error for a bundle whose content is not what was signed."""
    return StorageError(
        f"{path} is truncated, damaged or was changed after it was signed ({what}); nothing in it "
        "was used; copy it again from the machine that made it"
    )


def check_header(path: Path) -> None:
    """Refuse a file that is not a bundle before SQLite opens it."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise StorageError(f"cannot read the bundle {path}: {error.strerror}") from error
    if not head:
        raise StorageError(f"{path} is empty, so it is not a bundle; copy it again")
    foreign = not head.startswith(MAGIC[: len(head)])
    if len(head) == 100 and int.from_bytes(head[68:72], "big") != APPLICATION:
        foreign = True
    if foreign:
        raise StorageError(
            f"{path} is not a bundle; `skipjack bundle export` and `bundle evaluate` make them"
        )
    if len(head) < 100 or head[18:20] != _ROLLBACK_JOURNAL:
        raise damaged(path, "its header")


def check_all(connection: sqlite3.Connection, path: Path, key: bytes) -> BundleState:
    """Check every page, the manifest and every entry."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} is a bundle of format {version}; this Skipjack reads formats up to {FORMAT}; "
            "use the version that made it"
        )
    (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise damaged(path, " ".join(str(answer).split()))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size != pages * page_bytes:
        # SQLite reads the missing end of a truncated last page as zeros.
        raise damaged(path, f"it should have {pages * page_bytes} bytes")
    found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    if dict(found) != SCHEMA or len(found) != len(SCHEMA):
        raise damaged(path, "its tables are not those of a bundle")
    state = _check_manifest(connection, path, key)
    _check_entries(connection, path, key, state)
    return state


def _check_manifest(connection: sqlite3.Connection, path: Path, key: bytes) -> BundleState:
    rows = connection.execute("SELECT text, count, head, seal FROM manifest").fetchall()
    if len(rows) != 1:
        raise damaged(path, "its manifest")
    text, count, head, whole = rows[0]
    types = (type(text), type(count), type(head), type(whole))
    if types != (str, int, str, str):
        raise damaged(path, "its manifest")
    try:
        manifest = BundleManifest.of(text)
    except MalformedError as error:
        raise damaged(path, f"its {error}") from None
    if manifest.key != fingerprint(key) and re.fullmatch("[0-9a-f]{12}", str(manifest.key)):
        raise StorageError(
            f"{path} is signed with another fleet's key ({manifest.key}; the key here is "
            f"{fingerprint(key)}); nothing in it was used; copy the key file of the fleet that it "
            "belongs to and name it with --key or SKIPJACK_FLEET_KEY"
        )
    if not is_signed(key, manifest_text(text, count, head), whole):
        raise damaged(path, "the signature of its manifest is wrong")
    return BundleState(manifest, count, head)


def _check_entries(
    connection: sqlite3.Connection, path: Path, key: bytes, state: BundleState
) -> None:
    head, at = "", 0
    query = "SELECT position, kind, name, body, seal FROM entries ORDER BY position"
    for position, kind, name, body, entry_signature in connection.execute(query):
        at += 1
        types = (type(kind), type(name), type(body), type(entry_signature))
        if position != at or types != (str, str, bytes, str) or not _HEX.fullmatch(entry_signature):
            raise damaged(path, f"entry {at}")
        if not is_signed(key, entry_text(state.manifest.id, at, kind, name, body), entry_signature):
            raise damaged(path, f"the signature of entry {at} is wrong")
        head = chained(head, entry_signature)
    if at != state.count or head != state.head:
        raise damaged(path, f"it has {numbered(at, 'entry')}, its manifest says {state.count}")
