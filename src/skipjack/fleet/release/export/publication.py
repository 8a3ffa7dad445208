"""Writing the files of an export: all of them with a manifest, or none."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.fleet.release.database_directory import check_places, directory_lock, put_in_place
from skipjack.fleet.release.export.manifest import (
    FILE_NAME,
    ExportManifest,
    ExportOrigin,
    FileNote,
    digest_of,
    read_manifest,
)
from skipjack.fleet.release.formats import Alias, Contents, ReleaseFile, check_aliases, keyed_file
from skipjack.reading import numbered
from skipjack.storage import atomic_write, output_directory, timestamp, utc_now, write_failure

# Staging of exports: files are created in a temporary folder and moved into place together.

_PREFIX, _SUFFIX = ".export-", ".tmp"


@dataclass(slots=True)
class Staging:
    """A folder in which new files are created."""

    directory: Path
    """The target directory."""
    folder: Path
    _names: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """The path at which to create a file; `UsageError` if the name is repeated."""
        if name in self._names:
            raise UsageError(f"{name} would be written twice; export these devices one by one")
        self._names.append(name)
        return self.folder / name

    @property
    def names(self) -> list[str]:
        """The names of all files in the order in which they are moved."""
        return list(self._names)


@contextlib.contextmanager
def staged(directory: Path) -> Iterator[Staging]:
    """A folder for new files, which replace the old ones at the end, in order of creation.

    If anything fails before the first file is moved, nothing changes, and directories that were
    created are removed. If the process is killed between two moves, new and old files are mixed.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; give a directory")
    with _existing_directory(directory):
        output_directory(directory)
        one = directory.stat().st_ino
        with directory_lock(directory):
            if not directory.exists() or directory.stat().st_ino != one:
                # The process that created it failed and removed it while this one waited.
                raise StorageError(f"{directory} was removed by another process; try again")
            yield from _staging_folder(directory)


@contextlib.contextmanager
def _existing_directory(directory: Path) -> Iterator[None]:
    """Create missing directories; remove them again if the body fails."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)  # readable for others, as the files ship
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # another program may have added files
            for each in missing:
                each.rmdir()
        if isinstance(error, OSError):
            raise write_failure(directory, error) from error
        raise


def _staging_folder(directory: Path) -> Iterator[Staging]:
    for left in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True)  # left by a killed process: this one holds the lock
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=directory))
    try:
        staging = Staging(directory, folder)
        yield staging
        check_places(directory, staging.names)
        for name in staging.names:
            (folder / name).chmod(0o666 & ~_umask())
        for name in staging.names:
            put_in_place(folder / name, directory / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """The umask of the process, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# Replacement of files by an export: only exported files, and never silently.


def refuse_foreign(directory: Path, names: Iterable[str], known: ExportManifest) -> None:
    """`UsageError` if an existing file was not exported according to the manifest."""
    for name in names:
        path = directory / name
        if path.is_file() and name != FILE_NAME and name not in known.files:
            raise UsageError(
                f"{path}{_holding(records_in(path))} was not exported: it has no entry in a "
                f"{FILE_NAME}; skipjack promote merges into it, --replace replaces it"
            )


def shrinkage_remarks(directory: Path, folder: Path, names: Iterable[str]) -> Iterator[str]:
    """A remark about each file with fewer records than the file that it replaces."""
    for name in names:
        before, after = records_in(directory / name), records_in(folder / name)
        if before and after is not None and before > after:
            yield (
                f"replaced {numbered(before, 'record')} of {name} by {after}; "
                "skipjack promote merges instead"
            )


def records_in(path: Path) -> int | None:
    """The number of records; None if the file does not exist or is not a valid database."""
    if not path.is_file():
        return None
    try:
        form = keyed_file(path)
        if form.by_line:  # lines are counted without parsing: the file may be long or damaged
            with path.open("rb") as file:
                return sum(1 for line in file if line.strip())
        return sum(1 for _ in form.read(path))
    except (SkipjackError, OSError):
        return None


def _holding(records: int | None) -> str:
    return f" ({numbered(records, 'record')})" if records else ""


# The publication of an export's files.

_SOURCES = {
    "find-db": "skipjack find",
    "perf-db": "skipjack tune",
    "kernel-db": "skipjack tune",
}
"""The command that creates missing results in a bank; labels were checked before."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export."""

    directory: Path
    contents: Contents
    files: tuple[FileNote, ...]
    remarks: tuple[str, ...]
    not_applicable: int = 0
    """Number of jobs that no solver supports."""
    unfinished: int = 0
    """Number of jobs without a result, if the export is partial."""


def release_directory(output: Path, release: str) -> Path:
    """The directory of the files: ``out/rel-6.2`` for release 6.2."""
    if not release:
        return output
    odd = release.startswith(".") or "/" in release or not release.isprintable()
    if odd or release != release.strip():
        raise UsageError(f"{release!r} is not a valid name of a release; write one like 6.2")
    return output / f"rel-{release}"


def publish(
    contents: Contents,
    output: Path,
    origin: ExportOrigin,
    *,
    aliases: Iterable[Alias] = (),
    release: str = "",
    replacing: bool = False,
) -> ExportResult:
    """Write every file, then the manifest; a failure before that changes nothing.

    Files that were not exported are replaced only with `replacing`. If the process is killed while
    files are moved, some differ from their manifest; the next export reports them and removes
    their entries.
    """
    aliases = tuple(aliases)
    if not contents.files:
        raise _nothing(contents, origin)
    check_aliases(aliases, [file.device for file in contents.files])
    directory = release_directory(output, release)
    remarks = list(contents.remarks)
    with staged(directory) as staging:
        notes = [_write_file(staging, contents, file, origin) for file in contents.files]
        for alias in aliases:
            file = next(file for file in contents.files if file.device == alias.source)
            if file.is_code and not alias.same_architecture:
                remarks.append(
                    f"{alias.target} gets no kernels of {alias.source}, whose machine code it "
                    "cannot load"
                )
                continue
            notes.append(_write_file(staging, contents, file, origin, alias))
        known = read_manifest(directory).of_files_in(directory)
        if not replacing:
            refuse_foreign(directory, staging.names, known)
        remarks += shrinkage_remarks(directory, staging.folder, staging.names)
        odd = known.without(staging.names).changed_in(directory)
        remarks += [changed_file_remark(name) for name in odd]
        manifest = known.without(odd).updated(notes, release)
        # The last file: until it is replaced, the old manifest matches the old files.
        atomic_write(staging.path(FILE_NAME), manifest.text().encode())
    return ExportResult(directory, contents, tuple(notes), tuple(remarks))


def changed_file_remark(name: str) -> str:
    """The remark about a file whose entry was removed from the manifest."""
    return (
        f"{name} differs from its entry in {FILE_NAME} (an export was interrupted, or the file was "
        "changed), so the entry was removed; export the file again"
    )


def _nothing(contents: Contents, origin: ExportOrigin) -> UsageError:
    """The error if there is nothing to write, with the reason or the command to run first."""
    where = f"label {origin.label}" if origin.label else "the bank"
    first = "; ".join(contents.remarks) or f"{_SOURCES[contents.kind]} fills it"
    return UsageError(f"{where} has nothing to export as a {contents.kind}: {first}")


def _write_file(
    staging: Staging,
    contents: Contents,
    file: ReleaseFile,
    origin: ExportOrigin,
    alias: Alias | None = None,
) -> FileNote:
    device = alias.target if alias else file.device
    name = file.name(device)
    path = staging.path(name)
    file.write(path, device)
    return FileNote(
        name,
        contents.kind,
        contents.format,
        device,
        digest_of(path),
        path.stat().st_size,
        file.counts,
        alias.source if alias else "",
        replace(origin, toolchains=file.toolchains),
        date=timestamp(utc_now()),
    )
