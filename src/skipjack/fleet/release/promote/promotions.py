"""The promotions of a directory of databases: what replaced what, kept so that it can be undone.

::

  DIR/gfx90a68.HIP.fdb.txt                       the files that others read
  DIR/.skipjack/promotions/0001-LABEL/
      manifest.json                              who, when, digests before and after, counts
      old/gfx90a68.HIP.fdb.txt                   what stood there before
      new/gfx90a68.HIP.fdb.txt                   what will stand there, until it does

A folder without a manifest is one whose files were still being made: nothing was touched, and it
is thrown away. From the manifest on, which says ``begun``, all that is left to do is moving files
that are complete, so that whoever comes next can finish it.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import CorruptFileError, NewerFormatError
from skipjack.fleet.release.directory_lock import HIDDEN, directory_lock, hidden_folder
from skipjack.fleet.release.export.manifest import digest_of as sha256_of
from skipjack.fleet.release.export.manifest import plain_name
from skipjack.reading import Field, read_json
from skipjack.storage import FileLock, atomic_write
from skipjack.storage.failure import write_failure

FORMAT = 1
MANIFEST = "manifest.json"
OLD, NEW, REMOVED = "old", "new", "removed"
_FOLDER = re.compile(r"(\d{4,})-.*")
_ODD = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 80


class Phase(StrEnum):
    """How far a promotion is."""

    BEGUN = "begun"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened to the records of a file."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    """New ones that were there already, the same to the letter."""
    kept: int = 0
    """Old ones that the new file says nothing about."""
    dropped: int = 0
    """Old ones that are gone: of a file replaced as a whole, and further ones of a key."""

    @property
    def total(self) -> int:
        """Records of the new file."""
        return self.added + self.changed + self.unchanged + self.kept


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a promotion."""

    name: str
    after: str
    """The SHA-256 of what stands there now."""
    before: str | None = None
    """Of what stood there; None if there was no such file."""
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A label's databases put into a directory."""

    number: int
    label: str
    folder: Path
    phase: Phase
    files: tuple[FileChange, ...]
    at: str = ""
    user: str = ""
    host: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Skipjack, and of what the label was tuned with."""

    def to_json(self) -> dict[str, Any]:
        """The manifest."""
        record = {name: getattr(self, name) for name in _WRITTEN}
        return {
            "format": FORMAT,
            **record,
            "versions": dict(self.versions),
            "files": [asdict(file) for file in self.files],
        }

    def write(self) -> None:
        """Write the manifest; on disk when this returns."""
        text = json.dumps(self.to_json(), indent=1) + "\n"
        atomic_write(self.folder / MANIFEST, text.encode())

    def moved_on(self, phase: Phase) -> Promotion:
        """The same, further on, and written down."""
        further = replace(self, phase=phase)
        further.write()
        return further


_WRITTEN = ("number", "label", "phase", "at", "user", "host")


class Promotions:
    """Those of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._root = directory / HIDDEN / "promotions"

    def lock(self) -> FileLock:
        """Held by whoever changes the directory, exports too; the second waits for the first."""
        return directory_lock(self.directory)

    def all(self) -> list[Promotion]:
        """All that have a manifest, the first one first."""
        found = [read_manifest(folder) for folder in self._folders() if _has_manifest(folder)]
        return sorted(found, key=lambda promotion: promotion.number)

    def new_folder(self, label: str) -> Path:
        """An empty folder for the next promotion; it counts from its manifest on."""
        number = 1 + max((int(_number(folder)) for folder in self._folders()), default=0)
        short = _ODD.sub("_", label)[:_LONGEST_NAME]
        hidden_folder(self.directory)
        folder = self._root / f"{number:04}-{short}"
        try:
            for place in (OLD, NEW):
                (folder / place).mkdir(parents=True)
        except OSError as error:
            raise write_failure(folder, error) from error
        return folder

    def throw_away_unfinished(self) -> None:
        """Remove folders that never came to their manifest."""
        for folder in self._folders():
            if not _has_manifest(folder):
                shutil.rmtree(folder)

    def _folders(self) -> Sequence[Path]:
        if not self._root.is_dir():
            return []
        return [each for each in self._root.iterdir() if _FOLDER.fullmatch(each.name)]


def number_of(folder: Path) -> int:
    """The number in a folder's name."""
    return int(_number(folder))


def read_manifest(folder: Path) -> Promotion:
    """The promotion of a folder."""
    path = folder / MANIFEST
    try:
        record = read_json(path.read_bytes())
        version = record["format"].integer()
        if version > FORMAT:
            raise NewerFormatError(
                f"{path} has format {version}, this Skipjack knows {FORMAT}; use a newer one"
            )
        return Promotion(
            number=record["number"].integer(0),
            phase=record["phase"].of(Phase),
            folder=folder,
            files=tuple(_change_of(file) for file in record["files"].elements()),
            versions={name: one.text() for name, one in record["versions"].fields().items()},
            **{name: record[name].text() for name in ("label", "at", "user", "host")},
        )
    except (OSError, ValueError) as error:
        raise CorruptFileError(
            f"the manifest {path} cannot be read ({error}); what stood in the directory before is "
            f"under {folder / OLD}"
        ) from None


def _change_of(file: Field) -> FileChange:
    change = file.of(FileChange)
    # What is undone is moved and removed: a name must not lead out of the directory.
    plain_name(change.name)
    return change


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file; None if there is none."""
    return sha256_of(path) if path.is_file() else None


def who() -> tuple[str, str]:
    """The user and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's number that nobody gave a name
        user = str(os.getuid())
    return user, socket.gethostname()


def _number(folder: Path) -> str:
    found = _FOLDER.fullmatch(folder.name)
    return found[1] if found else "0"


def _has_manifest(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()
