"""``manifest.json``: what the files of a directory are, where they come from, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import skipjack
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError
from skipjack.fleet.release.formats import AND
from skipjack.reading import Field, read_json
from skipjack.storage import timestamp, utc_now

FORMAT = 1
FILE_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the content of a file comes from."""

    label: str = ""
    """Empty: this user's bank."""
    owner: str = ""
    versions: str = ""
    image: str = ""
    ticket: str = ""
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileNote:
    """What a manifest says of one file."""

    name: str
    kind: str
    """``find-db``, ``perf-db`` or ``kernel-db``."""
    format: str
    """``miopen``, ``skipjack``, or that of a plug-in."""
    device: str
    sha256: str
    bytes: int
    counts: Mapping[str, int] = field(default_factory=dict)
    alias_of: str = ""
    """The device that was measured, where the file was written for another one."""
    origin: Origin = field(default_factory=Origin)
    skipjack: str = skipjack.__version__
    date: str = ""

    def tells_of(self, path: Path) -> bool:
        """Whether a file has the content that was noted."""
        return path.stat().st_size == self.bytes and digest_of(path) == self.sha256

    def to_json(self) -> dict[str, Any]:
        """As in a manifest."""
        record = asdict(self)
        record["origin"]["toolchains"] = list(self.origin.toolchains)
        record["counts"] = dict(self.counts)
        return record

    @classmethod
    def from_json(cls, record: Field) -> FileNote:
        """The note that `to_json` wrote."""
        note = record.of(cls)
        plain_name(note.name)
        return note


@dataclass(frozen=True, slots=True)
class Manifest:
    """All notes of a directory, by the name of the file."""

    files: Mapping[str, FileNote] = field(default_factory=dict)
    release: str = ""

    def updated(self, notes: Iterable[FileNote], release: str = "") -> Manifest:
        """With these notes instead of those of the same files."""
        files = {**self.files, **{note.name: note for note in notes}}
        return Manifest(dict(sorted(files.items())), release or self.release)

    def of_files_in(self, directory: Path) -> Manifest:
        """Without notes of files that are not there any more."""
        return self._with(lambda note: (directory / note.name).is_file())

    def changed_in(self, directory: Path) -> tuple[str, ...]:
        """Files that are there, but not with the content that was noted."""
        there = self.of_files_in(directory).files.values()
        return tuple(note.name for note in there if not note.tells_of(directory / note.name))

    def without(self, names: Iterable[str]) -> Manifest:
        """Without notes of these files."""
        gone = set(names)
        return self._with(lambda note: note.name not in gone)

    def _with(self, wanted: Callable[[FileNote], bool]) -> Manifest:
        kept = {name: note for name, note in self.files.items() if wanted(note)}
        return Manifest(kept, self.release)

    def text(self) -> str:
        """The content of the file."""
        notes = self.files.values()
        record = {
            "format": FORMAT,
            "skipjack": skipjack.__version__,
            "date": timestamp(utc_now()),
            "release": self.release,
            "labels": sorted({note.origin.label for note in notes if note.origin.label}),
            "devices": sorted({name for note in notes for name in note.device.split(AND)}),
            "aliases": {
                note.device: note.alias_of
                for note in sorted(notes, key=lambda note: note.device)
                if note.alias_of
            },
            "files": [note.to_json() for note in notes],
        }
        return json.dumps(record, indent=2, sort_keys=True) + "\n"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a directory, empty if there is none."""
    path = directory / FILE_NAME
    try:
        record = read_json(path.read_bytes())
        version = record["format"].integer()
        if version > FORMAT:
            raise NewerFormatError(
                f"{path} has format {version}, this Skipjack reads up to {FORMAT}; update Skipjack"
            )
        notes = [FileNote.from_json(note) for note in record["files"].elements()]
        return Manifest({note.name: note for note in notes}, record["release"].text())
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CorruptFileError(
            f"{path} is no manifest of an export: {error}; move it away or choose another directory"
        ) from None


def plain_name(name: object) -> str:
    """The name of a file in the directory of a manifest; `ValueError` if it leads elsewhere."""
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"{name!r} is no name of a file beside it")
    return name


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
