"""Writing the files of an export: all of them with a manifest, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.release.export.manifest import (
    FILE_NAME,
    FileNote,
    Origin,
    digest_of,
    read_manifest,
)
from skipjack.fleet.release.export.replacing import refuse_foreign, shrunk
from skipjack.fleet.release.export.staging import Staging, staged
from skipjack.fleet.release.formats import Alias, Contents, ReleaseFile, check_aliases
from skipjack.storage import timestamp, utc_now
from skipjack.storage.atomic import atomic_write

_SOURCES = {
    "find-db": "skipjack find",
    "perf-db": "skipjack tune",
    "kernel-db": "skipjack tune",
}
"""What makes results where there are none; labels were checked for jobs before."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote and what it left out."""

    directory: Path
    contents: Contents
    files: tuple[FileNote, ...]
    remarks: tuple[str, ...]
    not_applicable: int = 0
    """Jobs that no solver can do."""
    unfinished: int = 0
    """Jobs that have no result yet, of an export that was wanted nevertheless."""


def release_directory(output: Path, release: str) -> Path:
    """Where the files go: ``out/rel-6.2`` for a release 6.2."""
    if not release:
        return output
    odd = release.startswith(".") or "/" in release or not release.isprintable()
    if odd or release != release.strip():
        raise UsageError(f"{release!r} is no name of a release; write one like 6.2")
    return output / f"rel-{release}"


def publish(
    contents: Contents,
    output: Path,
    origin: Origin,
    *,
    aliases: Iterable[Alias] = (),
    release: str = "",
    replacing: bool = False,
) -> Exported:
    """Write every file, then the manifest; a failure before that leaves all as it was.

    Files that were not exported are replaced if `replacing` is said, else refused.
    Who is killed while files are moved leaves some under a manifest that does not tell of them:
    the next export says which, and notes them no more.
    """
    aliases = tuple(aliases)
    if not contents.files:
        raise _nothing(contents, origin)
    check_aliases(aliases, [file.device for file in contents.files])
    directory = release_directory(output, release)
    remarks = list(contents.remarks)
    with staged(directory) as staging:
        notes = [_written(staging, contents, file, origin) for file in contents.files]
        for alias in aliases:
            file = next(file for file in contents.files if file.device == alias.source)
            if file.is_code and not alias.same_architecture:
                remarks.append(
                    f"{alias.target} gets no kernels of {alias.source}, whose machine code does "
                    "not load there"
                )
                continue
            notes.append(_written(staging, contents, file, origin, alias))
        known = read_manifest(directory).of_files_in(directory)
        if not replacing:
            refuse_foreign(directory, staging.names, known)
        remarks += shrunk(directory, staging.folder, staging.names)
        odd = known.without(staging.names).changed_in(directory)
        remarks += [not_as_noted(name) for name in odd]
        manifest = known.without(odd).updated(notes, release)
        # Last of all: until it is there, the old one tells of the old files.
        atomic_write(staging.path(FILE_NAME), manifest.text().encode())
    return Exported(directory, contents, tuple(notes), tuple(remarks))


def not_as_noted(name: str) -> str:
    """The remark about a file whose note was taken out of the manifest."""
    return (
        f"{name} is not what {FILE_NAME} said of it (an export was interrupted, or somebody "
        f"changed it), so it is noted there no more; export it again"
    )


def _nothing(contents: Contents, origin: Origin) -> UsageError:
    """Why no file would be written, or what has to happen first."""
    where = f"label {origin.label}" if origin.label else "the bank"
    first = "; ".join(contents.remarks) or f"{_SOURCES[contents.kind]} fills it"
    return UsageError(f"{where} has nothing to export as a {contents.kind}: {first}")


def _written(
    staging: Staging,
    contents: Contents,
    file: ReleaseFile,
    origin: Origin,
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
