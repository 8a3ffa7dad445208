"""``manifest.json``: what the files of a directory are, where they come from, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import skipjack
from skipjack.errors import CorruptFileError, NewerFormatError, SkipjackError, StorageError
from skipjack.fleet.release.formats import AND
from skipjack.interop.miopen import MOST_LISTED, FileReport
from skipjack.reading import Field, read_json
from skipjack.storage import timestamp, utc_now

# ``manifest.json``: the files of a directory with their origins and digests.

FORMAT = 1
FILE_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class ExportOrigin:
    """The origin of the content of a file."""

    label: str = ""
    """Empty for this user's bank."""
    owner: str = ""
    versions: str = ""
    image: str = ""
    ticket: str = ""
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileNote:
    """The entry of a manifest for one file."""

    name: str
    kind: str
    """``find-db``, ``perf-db`` or ``kernel-db``."""
    format: str
    """``miopen``, ``skipjack``, or the format of a plug-in."""
    device: str
    sha256: str
    bytes: int
    counts: Mapping[str, int] = field(default_factory=dict)
    alias_of: str = ""
    """The measured device, if the file was written for another one."""
    origin: ExportOrigin = field(default_factory=ExportOrigin)
    skipjack: str = skipjack.__version__
    date: str = ""

    def tells_of(self, path: Path) -> bool:
        """Whether a file has the recorded size and digest."""
        return path.stat().st_size == self.bytes and digest_of(path) == self.sha256

    def to_json(self) -> dict[str, Any]:
        """The JSON object in a manifest."""
        record = asdict(self)
        record["origin"]["toolchains"] = list(self.origin.toolchains)
        record["counts"] = dict(self.counts)
        return record

    @classmethod
    def from_json(cls, record: Field) -> FileNote:
        """The entry that `to_json` wrote."""
        note = record.of(cls)
        plain_name(note.name)
        return note


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """All entries for a directory, by file name."""

    files: Mapping[str, FileNote] = field(default_factory=dict)
    release: str = ""

    def updated(self, notes: Iterable[FileNote], release: str = "") -> ExportManifest:
        """A manifest in which these entries are added or replaced."""
        files = {**self.files, **{note.name: note for note in notes}}
        return ExportManifest(dict(sorted(files.items())), release or self.release)

    def of_files_in(self, directory: Path) -> ExportManifest:
        """A manifest without entries of missing files."""
        return self._with(lambda note: (directory / note.name).is_file())

    def changed_in(self, directory: Path) -> tuple[str, ...]:
        """Names of existing files whose content differs from the entry."""
        there = self.of_files_in(directory).files.values()
        return tuple(note.name for note in there if not note.tells_of(directory / note.name))

    def without(self, names: Iterable[str]) -> ExportManifest:
        """A manifest without entries of these files."""
        gone = set(names)
        return self._with(lambda note: note.name not in gone)

    def _with(self, keep: Callable[[FileNote], bool]) -> ExportManifest:
        kept = {name: note for name, note in self.files.items() if keep(note)}
        return ExportManifest(kept, self.release)

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


def read_manifest(directory: Path) -> ExportManifest:
    """The manifest of a directory, empty if there is none."""
    path = directory / FILE_NAME
    try:
        record = read_json(path.read_bytes())
        version = record["format"].integer()
        if version > FORMAT:
            raise NewerFormatError(
                f"{path} has format {version}; this version of Skipjack reads formats up to "
                f"{FORMAT}: update Skipjack"
            )
        notes = [FileNote.from_json(note) for note in record["files"].elements()]
        return ExportManifest({note.name: note for note in notes}, record["release"].text())
    except FileNotFoundError:
        return ExportManifest()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CorruptFileError(
            f"{path} is not a manifest of an export: {error}; move it away or choose another "
            "directory"
        ) from None


def plain_name(name: object) -> str:
    """A plain file name; `ValueError` if it has directories."""
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    return name


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Checks of the manifests of exports against the files in their directories.


def manifest_reports(paths: Iterable[Path], *, limit: int = MOST_LISTED) -> list[FileReport]:
    """A report for each directory with files that differ from its manifest."""
    reports = [_report(path, limit) for path in dict.fromkeys(paths) if path.is_dir()]
    return [report for report in reports if report.counts]


def _report(directory: Path, limit: int) -> FileReport:
    report = FileReport(str(directory / FILE_NAME), "manifest of an export", limit=limit)
    try:
        manifest = read_manifest(directory)
        report.records = len(manifest.files)
        changed = manifest.changed_in(directory)
    except SkipjackError as error:
        report.add("odd_lines", str(error))
        return report
    for name in changed:
        report.add(
            "not_as_noted",
            f"{name} differs from its entry in the manifest: an export was interrupted, or the "
            "file was changed; export it again",
        )
    return report
