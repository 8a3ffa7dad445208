"""Promotion of a label's databases into a directory of databases, so that it can be undone."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import skipjack
from skipjack.errors import StorageError, UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.database_directory import PACKED, check_places, sync
from skipjack.fleet.release.export import FILE_NAME, ExportOrigin, FileNote, read_manifest
from skipjack.fleet.release.formats import (
    MIOPEN,
    Alias,
    Contents,
    ExportFormat,
    FindOptions,
    MergeRule,
    PerfOptions,
    ReleaseFile,
    check_aliases,
    merge,
)
from skipjack.fleet.release.promote.history import (
    NEW,
    OLD,
    BeforeFile,
    FileChange,
    Promotion,
    PromotionPhase,
    Promotions,
    digest_if_present,
    finish,
    no_step,
    number_of,
    recover,
    user_and_host,
)
from skipjack.fleet.release.results import (
    CACHED,
    CONFIGS,
    RANKINGS,
    TUNINGS,
    JobSelection,
    Readiness,
    configs_readiness,
    fetching,
    found_in_label,
    kernels_in_label,
    readiness_of,
    tuned_in_label,
)
from skipjack.fleet.store import Store
from skipjack.storage import pending_companions, timestamp, utc_now, write_failure

# Promotion of a label's databases into a directory of databases, so that it can be undone.
#
# First all new files are created in a separate folder. Then a manifest records what will happen,
# the files are moved into place one by one, and the manifest is marked as done. If the process is
# killed, it leaves either the old files or a manifest with which the next command completes the
# work.


@dataclass(frozen=True, slots=True)
class Promoted:
    """The result of a promotion or of its dry run."""

    directory: Path
    changes: tuple[FileChange, ...]
    promotion: Promotion | None = None
    """None if nothing has changed."""
    unchanged: tuple[str, ...] = ()
    """Files that already had the new content."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """The databases to merge into a directory."""

    label: str
    contents: Sequence[Contents]
    rule: MergeRule = MergeRule.REPLACE_KEYS
    versions: Mapping[str, str] = field(default_factory=dict)
    origin: ExportOrigin = field(default_factory=ExportOrigin)
    aliases: tuple[Alias, ...] = ()
    """Devices that get the files of other devices."""


def promote(
    release: Release, directory: Path, *, dry_run: bool = False, step: BeforeFile = no_step
) -> Promoted:
    """Merge a label's files into those of the directory; calls `step` before each file."""
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise UsageError(f"{directory} {what}; give the directory with the databases to update")
    if not any(contents.files for contents in release.contents):
        why = [remark for contents in release.contents for remark in contents.remarks]
        reason = f": {why[0]}" if why else ""
        raise UsageError(f"label {release.label} has nothing to promote{reason}")
    if dry_run:
        with tempfile.TemporaryDirectory() as scratch:
            return _prepare(release, directory, Path(scratch))
    promotions = Promotions(directory)
    with promotions.lock():
        remarks = recover(promotions)
        with _promotion_folder(promotions, release.label) as folder:
            made = _prepare(release, directory, folder)
            made = replace(made, remarks=(*remarks, *made.remarks))
            if not made.changes:
                shutil.rmtree(folder)
                return made
            begun = _begin(release, folder, made.changes)
        return replace(made, promotion=finish(promotions, begun, step))


@contextmanager
def _promotion_folder(promotions: Promotions, label: str) -> Iterator[Path]:
    """A folder for a promotion, which is removed if its files cannot be created."""
    folder = promotions.new_folder(label)
    try:
        yield folder
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_failure(folder, error) from error
        raise


def _begin(release: Release, folder: Path, changes: tuple[FileChange, ...]) -> Promotion:
    user, host = user_and_host()
    begun = Promotion(
        number_of(folder),
        release.label,
        folder,
        PromotionPhase.BEGUN,
        changes,
        timestamp(utc_now()),
        user,
        host,
        _versions(release),
    )
    begun.write()
    return begun


def _versions(release: Release) -> Mapping[str, str]:
    """The versions recorded for the label, and the toolchains of its jobs."""
    files = [file for contents in release.contents for file in contents.files]
    used = sorted({name for file in files for name in file.toolchains})
    return {**release.versions, **({"toolchains": "; ".join(used)} if used else {})}


def _prepare(release: Release, directory: Path, folder: Path) -> Promoted:
    """Create new files in `folder`, and copies of the files that they will replace."""
    for part in (OLD, NEW):
        (folder / part).mkdir(exist_ok=True)
    changes: list[FileChange] = []
    same: list[str] = []
    notes: list[FileNote] = []
    remarks = [remark for contents in release.contents for remark in contents.remarks]
    for new_file in _device_files(release):
        form = formats.get(new_file.contents.format)
        for name in _targets(directory, form, new_file.file.name(new_file.device)):
            change = _change(directory, folder, new_file, name, release.rule)
            if change.before == change.after:
                (folder / NEW / name).unlink()
                same.append(name)
                continue
            changes.append(change)
            if change.before is None:
                remarks += form.remarks_beside(directory, change.name)
            notes.append(_note(new_file, folder / NEW / name, release))
    changes += _manifest_change(directory, folder, notes)
    check_places(directory, [change.name for change in changes])
    for change in changes:
        _keep_old(directory, folder, change)
    for part in (OLD, NEW):
        sync(folder / part)
    return Promoted(directory, tuple(changes), None, tuple(same), tuple(remarks))


@dataclass(frozen=True, slots=True)
class _DeviceFile:
    """A file of the label for one device."""

    contents: Contents
    file: ReleaseFile
    device: str


def _device_files(release: Release) -> Iterator[_DeviceFile]:
    """All files, including those of aliases; machine code only for the same architecture."""
    for contents in release.contents:
        if contents.files:
            check_aliases(release.aliases, [file.device for file in contents.files])
        for file in contents.files:
            yield _DeviceFile(contents, file, file.device)
            for alias in release.aliases:
                fits = alias.same_architecture or not file.is_code
                if alias.source == file.device and fits:
                    yield _DeviceFile(contents, file, alias.target)


def _targets(directory: Path, form: ExportFormat, name: str) -> list[str]:
    """The names of the files to change: existing ones, or else the given name."""
    names = (name, *form.other_names(name))
    for each in names:
        packed = directory / f"{each}{PACKED}"
        if packed.exists():
            raise UsageError(
                f"cannot merge into the packed file {packed}; unpack it first "
                f"(bunzip2 {packed}), or move it away"
            )
    there = [each for each in names if os.path.lexists(directory / each)]
    return there or [name]


def _change(
    directory: Path, folder: Path, new_file: _DeviceFile, name: str, rule: MergeRule
) -> FileChange:
    old, made = directory / name, folder / NEW / name
    check_places(directory, [name])
    before = digest_if_present(old)  # before it is read, so that a later change is detected
    if beside := pending_companions(old):
        raise StorageError(
            f"another program is writing {old}, as {beside[0].name} shows; "
            "try again when it has finished"
        )
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / new_file.file.name(new_file.device)
        new_file.file.write(fresh, new_file.device)
        counts = merge(old if before else None, fresh, made, rule)
    if before:
        shutil.copymode(old, made)
    sync(made)
    return FileChange(name, digest_if_present(made) or "", before, counts)


def _keep_old(directory: Path, folder: Path, change: FileChange) -> None:
    if change.before is None:
        return
    kept = folder / OLD / change.name
    shutil.copy2(directory / change.name, kept)
    sync(kept)
    if digest_if_present(kept) != change.before:
        raise StorageError(
            f"{directory / change.name} was changed while it was read, so nothing was promoted; "
            "try again"
        )


def _note(new_file: _DeviceFile, made: Path, release: Release) -> FileNote:
    file, device = new_file.file, new_file.device
    return FileNote(
        made.name,
        new_file.contents.kind,
        new_file.contents.format,
        device,
        digest_if_present(made) or "",
        made.stat().st_size,
        file.counts,
        "" if device == file.device else file.device,
        replace(release.origin, toolchains=file.toolchains),
        date=timestamp(utc_now()),
    )


def _manifest_change(directory: Path, folder: Path, notes: Iterable[FileNote]) -> list[FileChange]:
    """The change of the export manifest, if the directory has one."""
    name = FILE_NAME
    listed = list(notes)
    if not listed or not (directory / name).is_file():
        return []
    before = digest_if_present(directory / name)
    known = read_manifest(directory)
    made = folder / NEW / name
    made.write_text(known.updated(listed).text())
    sync(made)
    return [FileChange(name, digest_if_present(made) or "", before)]


# All databases of a label, as they would be exported, for a promotion.

FIND, PERF, KERNEL = "find", "perf", "kernel"
DATABASE_KINDS: dict[str, JobSelection] = {FIND: RANKINGS, PERF: CONFIGS, KERNEL: CACHED}


@dataclass(frozen=True, slots=True)
class PromotionRequest:
    """The databases of a label to promote."""

    label: str
    device: str | None = None
    kinds: tuple[str, ...] = ()
    """Kinds of databases; empty for all that the label has jobs for."""
    form: str = MIOPEN
    top: int | None = None
    """Number of solvers for each problem; None for all."""
    partial: bool = False
    """Promote even if jobs are not finished."""
    aliases: tuple[Alias, ...] = ()
    backend: str = "HIP"
    """The backend in the names of MIOpen's find-dbs."""


def parse_kinds(text: str) -> tuple[str, ...]:
    """Parse kinds of databases, such as ``find,perf``."""
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for kind in kinds:
        if kind not in DATABASE_KINDS:
            raise UsageError(
                f"unknown kind of database {kind!r}; choose from {', '.join(DATABASE_KINDS)}"
            )
    return kinds


def release_of(store: Store, choice: PromotionRequest, rule: MergeRule) -> Release:
    """The release to promote; `UsageError` if jobs are not finished, unless it is partial."""
    label = store.labels.get(choice.label)
    contents = [_contents(store, choice, kind) for kind in _kinds(store, choice)]
    if not contents:
        raise UsageError(
            f"label {choice.label} has nothing to promote: none of its jobs is finished; "
            f"skipjack run -l {choice.label} runs them"
        )
    origin = ExportOrigin(label.name, label.owner, label.versions, label.image, label.ticket)
    versions = {
        "skipjack": skipjack.__version__,
        "toolchain": label.toolchain,
        "versions": label.versions,
        "image": label.image,
    }
    known_versions = {name: text for name, text in versions.items() if text}
    return Release(choice.label, contents, rule, known_versions, origin, choice.aliases)


def _kinds(store: Store, choice: PromotionRequest) -> Sequence[str]:
    """The requested kinds, which must have jobs, or all kinds with jobs."""
    chosen = []
    for kind in choice.kinds or DATABASE_KINDS:
        ready = _ready(store, choice, kind)
        if kind in choice.kinds and kind == KERNEL and not ready.jobs:
            ready = readiness_of(store, choice.label, TUNINGS, choice.device)
        if choice.kinds or ready.jobs:
            ready.check(partial=choice.partial)
            chosen.append(kind)
    return chosen


def _ready(store: Store, choice: PromotionRequest, kind: str) -> Readiness:
    if kind == PERF:
        return configs_readiness(store, choice.label, choice.device)
    return readiness_of(store, choice.label, DATABASE_KINDS[kind], choice.device)


def _contents(store: Store, choice: PromotionRequest, kind: str) -> Contents:
    label, device, form = choice.label, choice.device, formats.get(choice.form)
    if kind == FIND:
        found = found_in_label(store.results, label, device)
        return form.find(found, FindOptions(choice.top, choice.backend))
    if kind == PERF:
        made = form.perf(tuned_in_label(store.results, label, device), PerfOptions())
        return replace(made, remarks=(*made.remarks, *_ready(store, choice, kind).remarks))
    return form.kernel(
        kernels_in_label(store.results, label, device), fetching(store.results, label)
    )
