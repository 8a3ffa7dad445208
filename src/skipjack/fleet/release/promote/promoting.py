"""Putting a label's databases into a directory of databases, so that it can be undone.

All new files are made beside the old ones first. Then a manifest says what will happen, the files
are moved into their places one by one, and the manifest says that it is done. Whoever is killed on
the way leaves the old files, or a manifest by which the next command finishes the work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.export import manifest as export_manifest
from skipjack.fleet.release.formats import (
    Alias,
    Contents,
    ExportFormat,
    ReleaseFile,
    check_aliases,
)
from skipjack.fleet.release.placing import PACKED, check_places, sync
from skipjack.fleet.release.promote.merging import Rule, merge
from skipjack.fleet.release.promote.promotions import (
    NEW,
    OLD,
    FileChange,
    Phase,
    Promotion,
    Promotions,
    digest_of,
    number_of,
    who,
)
from skipjack.fleet.release.promote.undoing import Step, finish, go_on, recover
from skipjack.storage import timestamp, utc_now
from skipjack.storage.failure import write_failure
from skipjack.storage.sqlite_files import unfinished


@dataclass(frozen=True, slots=True)
class Promoted:
    """What came of a promotion, or would."""

    directory: Path
    changes: tuple[FileChange, ...]
    promotion: Promotion | None = None
    """None if nothing was changed."""
    unchanged: tuple[str, ...] = ()
    """Files that were so already."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """What is to be put into a directory."""

    label: str
    contents: Sequence[Contents]
    rule: Rule = Rule.REPLACE_KEYS
    versions: Mapping[str, str] = field(default_factory=dict)
    origin: export_manifest.Origin = field(default_factory=export_manifest.Origin)
    aliases: tuple[Alias, ...] = ()
    """Devices that get the files of others."""


def promote(
    release: Release, directory: Path, *, dry_run: bool = False, step: Step = go_on
) -> Promoted:
    """Merge a label's files into those of the directory; `step` is told of each file first."""
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise UsageError(f"{directory} {what}; name the directory with the databases to update")
    if not any(contents.files for contents in release.contents):
        why = [remark for contents in release.contents for remark in contents.remarks]
        said = f": {why[0]}" if why else ""
        raise UsageError(f"label {release.label} has nothing to promote{said}")
    if dry_run:
        with tempfile.TemporaryDirectory() as scratch:
            return _made(release, directory, Path(scratch))
    promotions = Promotions(directory)
    with promotions.lock():
        remarks = recover(promotions)
        with _folder(promotions, release.label) as folder:
            made = _made(release, directory, folder)
            made = replace(made, remarks=(*remarks, *made.remarks))
            if not made.changes:
                shutil.rmtree(folder)
                return made
            begun = _begun(release, folder, made.changes)
        return replace(made, promotion=finish(promotions, begun, step))


@contextmanager
def _folder(promotions: Promotions, label: str) -> Iterator[Path]:
    """A folder that is gone again if its files cannot be made."""
    folder = promotions.new_folder(label)
    try:
        yield folder
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_failure(folder, error) from error
        raise


def _begun(release: Release, folder: Path, changes: tuple[FileChange, ...]) -> Promotion:
    user, host = who()
    begun = Promotion(
        number_of(folder),
        release.label,
        folder,
        Phase.BEGUN,
        changes,
        timestamp(utc_now()),
        user,
        host,
        _versions(release),
    )
    begun.write()
    return begun


def _versions(release: Release) -> Mapping[str, str]:
    """What was said of the label, and the toolchains that its jobs were done with."""
    files = [file for contents in release.contents for file in contents.files]
    used = sorted({name for file in files for name in file.toolchains})
    return {**release.versions, **({"toolchains": "; ".join(used)} if used else {})}


def _made(release: Release, directory: Path, folder: Path) -> Promoted:
    """New files under `folder`, and copies of those that they will replace."""
    for place in (OLD, NEW):
        (folder / place).mkdir(exist_ok=True)
    changes: list[FileChange] = []
    same: list[str] = []
    notes: list[export_manifest.FileNote] = []
    remarks = [remark for contents in release.contents for remark in contents.remarks]
    for coming in _coming(release):
        form = formats.get(coming.contents.format)
        for name in _targets(directory, form, coming.file.name(coming.device)):
            change = _change(directory, folder, coming, name, release.rule)
            if change.before == change.after:
                (folder / NEW / name).unlink()
                same.append(name)
                continue
            changes.append(change)
            if change.before is None:
                remarks += form.remarks_beside(directory, change.name)
            notes.append(_note(coming, folder / NEW / name, release))
    changes += _manifest_change(directory, folder, notes)
    check_places(directory, [change.name for change in changes])
    for change in changes:
        _keep_old(directory, folder, change)
    for place in (OLD, NEW):
        sync(folder / place)
    return Promoted(directory, tuple(changes), None, tuple(same), tuple(remarks))


@dataclass(frozen=True, slots=True)
class _Coming:
    """A file of the label for a device."""

    contents: Contents
    file: ReleaseFile
    device: str


def _coming(release: Release) -> Iterator[_Coming]:
    """All files, and those that other devices get; machine code stays with its architecture."""
    for contents in release.contents:
        if contents.files:
            check_aliases(release.aliases, [file.device for file in contents.files])
        for file in contents.files:
            yield _Coming(contents, file, file.device)
            for alias in release.aliases:
                fits = alias.same_architecture or not file.is_code
                if alias.source == file.device and fits:
                    yield _Coming(contents, file, alias.target)


def _targets(directory: Path, form: ExportFormat, name: str) -> list[str]:
    """The names of the files to change: those that are there."""
    names = (name, *form.other_names(name))
    for each in names:
        packed = directory / f"{each}{PACKED}"
        if packed.exists():
            raise UsageError(
                f"{packed} is there, which nothing is merged into; unpack it first "
                f"(bunzip2 {packed}), or move it away"
            )
    there = [each for each in names if os.path.lexists(directory / each)]
    return there or [name]


def _change(directory: Path, folder: Path, coming: _Coming, name: str, rule: Rule) -> FileChange:
    old, made = directory / name, folder / NEW / name
    check_places(directory, [name])
    before = digest_of(old)  # of what is about to be read: who changes it later is found out
    if beside := unfinished(old):
        raise StorageError(
            f"{old} is being written by another program, as {beside[0].name} shows; "
            "try again when that has closed it"
        )
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / coming.file.name(coming.device)
        coming.file.write(fresh, coming.device)
        counts = merge(old if before else None, fresh, made, rule)
    if before:
        shutil.copymode(old, made)
    sync(made)
    return FileChange(name, digest_of(made) or "", before, counts)


def _keep_old(directory: Path, folder: Path, change: FileChange) -> None:
    if change.before is None:
        return
    kept = folder / OLD / change.name
    shutil.copy2(directory / change.name, kept)
    sync(kept)
    if digest_of(kept) != change.before:
        raise StorageError(
            f"{directory / change.name} was changed while it was read; nothing was promoted, "
            "try again"
        )


def _note(coming: _Coming, made: Path, release: Release) -> export_manifest.FileNote:
    file, device = coming.file, coming.device
    return export_manifest.FileNote(
        made.name,
        coming.contents.kind,
        coming.contents.format,
        device,
        digest_of(made) or "",
        made.stat().st_size,
        file.counts,
        "" if device == file.device else file.device,
        replace(release.origin, toolchains=file.toolchains),
        date=timestamp(utc_now()),
    )


def _manifest_change(
    directory: Path, folder: Path, notes: Iterable[export_manifest.FileNote]
) -> list[FileChange]:
    """A directory that was exported has a manifest with digests, which go with the files."""
    name = export_manifest.FILE_NAME
    listed = list(notes)
    if not listed or not (directory / name).is_file():
        return []
    before = digest_of(directory / name)
    known = export_manifest.read_manifest(directory)
    made = folder / NEW / name
    made.write_text(known.updated(listed).text())
    sync(made)
    return [FileChange(name, digest_of(made) or "", before)]
