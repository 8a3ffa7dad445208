"""The promotions of a directory of databases: recorded, completed after a crash, and undone."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import CorruptFileError, NewerFormatError, StorageError, UsageError
from skipjack.fleet.release.database_directory import (
    HIDDEN,
    directory_lock,
    hidden_folder,
    put_in_place,
    sync,
)
from skipjack.fleet.release.export import digest_of as sha256_of
from skipjack.fleet.release.export import plain_name
from skipjack.fleet.release.formats import MergeCounts
from skipjack.reading import Field, numbered, read_json
from skipjack.storage import FileLock, atomic_write, write_failure

# The promotions of a directory of databases: what replaced what, kept so that it can be undone.
#
# ::
#
#   DIR/gfx90a68.HIP.fdb.txt                       the files that others read
#   DIR/.skipjack/promotions/0001-LABEL/
#       manifest.json                              user, time, digests before and after, counts
#       old/gfx90a68.HIP.fdb.txt                   the previous content
#       new/gfx90a68.HIP.fdb.txt                   the new content, until it is moved into place
#
# A folder without a manifest was abandoned while its files were being created: nothing was changed,
# and it is deleted. Once a manifest with the phase ``begun`` exists, only complete files have to be
# moved, so that the next command can finish the promotion.

FORMAT = 1
MANIFEST = "manifest.json"
OLD, NEW, REMOVED = "old", "new", "removed"
_FOLDER = re.compile(r"(\d{4,})-.*")
_ODD = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 80


class PromotionPhase(StrEnum):
    """The progress of a promotion."""

    BEGUN = "begun"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a promotion."""

    name: str
    after: str
    """The SHA-256 of the new content."""
    before: str | None = None
    """The SHA-256 of the previous content; None if the file did not exist."""
    counts: MergeCounts = field(default_factory=MergeCounts)


@dataclass(frozen=True, slots=True)
class Promotion:
    """One promotion of a label's databases into a directory."""

    number: int
    label: str
    folder: Path
    phase: PromotionPhase
    files: tuple[FileChange, ...]
    at: str = ""
    user: str = ""
    host: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Skipjack and of the toolchain of the label."""

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
        """Write the manifest durably."""
        text = json.dumps(self.to_json(), indent=1) + "\n"
        atomic_write(self.folder / MANIFEST, text.encode())

    def moved_on(self, phase: PromotionPhase) -> Promotion:
        """The promotion in another phase, which is also written."""
        further = replace(self, phase=phase)
        further.write()
        return further


_WRITTEN = ("number", "label", "phase", "at", "user", "host")


class Promotions:
    """The promotions of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._root = directory / HIDDEN / "promotions"

    def lock(self) -> FileLock:
        """The lock for changing the directory, which exports use as well."""
        return directory_lock(self.directory)

    def all(self) -> list[Promotion]:
        """All promotions with a manifest, the oldest first."""
        found = [read_manifest(folder) for folder in self._folders() if _has_manifest(folder)]
        return sorted(found, key=lambda promotion: promotion.number)

    def new_folder(self, label: str) -> Path:
        """An empty folder for the next promotion, which is valid once it has a manifest."""
        number = 1 + max((int(_number(folder)) for folder in self._folders()), default=0)
        short = _ODD.sub("_", label)[:_LONGEST_NAME]
        hidden_folder(self.directory)
        folder = self._root / f"{number:04}-{short}"
        try:
            for part in (OLD, NEW):
                (folder / part).mkdir(parents=True)
        except OSError as error:
            raise write_failure(folder, error) from error
        return folder

    def throw_away_unfinished(self) -> None:
        """Remove folders without a manifest."""
        for folder in self._folders():
            if not _has_manifest(folder):
                shutil.rmtree(folder)

    def _folders(self) -> Sequence[Path]:
        if not self._root.is_dir():
            return []
        return [each for each in self._root.iterdir() if _FOLDER.fullmatch(each.name)]


def number_of(folder: Path) -> int:
    """The number of a promotion, from the name of its folder."""
    return int(_number(folder))


def read_manifest(folder: Path) -> Promotion:
    """The promotion of a folder."""
    path = folder / MANIFEST
    try:
        record = read_json(path.read_bytes())
        version = record["format"].integer()
        if version > FORMAT:
            raise NewerFormatError(
                f"{path} has format {version}; this version of Skipjack reads formats up to "
                f"{FORMAT}: update Skipjack"
            )
        return Promotion(
            number=record["number"].integer(0),
            phase=record["phase"].of(PromotionPhase),
            folder=folder,
            files=tuple(_change_of(file) for file in record["files"].elements()),
            versions={name: one.text() for name, one in record["versions"].fields().items()},
            **{name: record[name].text() for name in ("label", "at", "user", "host")},
        )
    except (OSError, ValueError) as error:
        raise CorruptFileError(
            f"cannot read the manifest {path} ({error}); the previous files of the directory are "
            f"in {folder / OLD}"
        ) from None


def _change_of(file: Field) -> FileChange:
    change = file.of(FileChange)
    # Undo moves and removes files, so a name must not have directories.
    plain_name(change.name)
    return change


def digest_if_present(path: Path) -> str | None:
    """The SHA-256 of a file; None if the file does not exist."""
    return sha256_of(path) if path.is_file() else None


def user_and_host() -> tuple[str, str]:
    """The user and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = str(os.getuid())
    return user, socket.gethostname()


def _number(folder: Path) -> str:
    found = _FOLDER.fullmatch(folder.name)
    return found[1] if found else "0"


def _has_manifest(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


# Completing interrupted promotions, and undoing promotions, the last one first.

BeforeFile = Callable[[str], None]
"""Called with the name of a file before it is changed; tests fail here on purpose."""


def no_step(name: str) -> None:
    """The default, which does nothing."""


def finish(promotions: Promotions, promotion: Promotion, step: BeforeFile = no_step) -> Promotion:
    """Move the new files of a begun promotion into place, except those already moved."""
    waiting = [
        file for file in promotion.files if _is_pending(promotions.directory, file, promotion)
    ]
    for file in waiting:
        step(file.name)
        _is_pending(
            promotions.directory, file, promotion
        )  # check again: other programs do not use the lock
        _move(promotion.folder / NEW / file.name, promotions.directory / file.name)
    sync(promotions.directory)
    step("")
    shutil.rmtree(promotion.folder / NEW, ignore_errors=True)
    return promotion.moved_on(PromotionPhase.DONE)


def _is_pending(directory: Path, file: FileChange, promotion: Promotion) -> bool:
    now = digest_if_present(directory / file.name)
    if now == file.after:
        return False
    if now != file.before:
        raise StorageError(
            f"{directory / file.name} was changed by another program during promotion "
            f"{promotion.number} of {promotion.label}; skipjack promote --undo "
            f"--force --into {directory} rolls it back"
        )
    return True


def recover(promotions: Promotions, step: BeforeFile = no_step) -> list[str]:
    """Complete interrupted promotions, with the lock held; returns a sentence for each."""
    promotions.throw_away_unfinished()
    remarks = []
    for promotion in promotions.all():
        name = f"promotion {promotion.number} of {promotion.label}"
        if promotion.phase is PromotionPhase.BEGUN:
            finish(promotions, promotion, step)
            remarks.append(f"{name} was interrupted and has been completed")
        elif promotion.phase is PromotionPhase.UNDOING:
            _restore(promotions, promotion, step)
            remarks.append(f"undoing {name} was interrupted and has been completed")
    return remarks


def undo(
    promotions: Promotions,
    *,
    to: int | None = None,
    force: bool = False,
    step: BeforeFile = no_step,
) -> list[Promotion]:
    """Undo the last promotion, or all from number `to` on; returns the undone promotions."""
    nothing = UsageError(f"{promotions.directory} has no promotion to undo")
    if not promotions.all():
        raise nothing
    with promotions.lock():
        promotions.throw_away_unfinished()
        for promotion in promotions.all():
            if promotion.phase is PromotionPhase.UNDOING:
                _restore(promotions, promotion, step)
        active = [one for one in promotions.all() if one.phase is not PromotionPhase.UNDONE]
        if not active:
            raise nothing
        numbers = [one.number for one in active]
        if to is not None and to not in numbers:
            listed = ", ".join(map(str, numbers))
            raise UsageError(
                f"{promotions.directory} has no active promotion {to}; the active ones are {listed}"
            )
        first = numbers[-1] if to is None else to
        chosen = [one for one in reversed(active) if one.number >= first]
        return [_undo_one(promotions, one, force, step) for one in chosen]


def _undo_one(
    promotions: Promotions, promotion: Promotion, force: bool, step: BeforeFile
) -> Promotion:
    changed = [file for file in promotion.files if _changed(promotions.directory, file)]
    if changed and not force:
        others = f" and {numbered(len(changed) - 1, 'more file')}" if len(changed) > 1 else ""
        raise StorageError(
            f"{promotions.directory / changed[0].name}{others} changed since promotion "
            f"{promotion.number} of {promotion.label}; undo would lose this. --force undoes it "
            f"nevertheless and keeps the changed files in {promotion.folder / REMOVED}"
        )
    lost = [file.name for file in promotion.files if _lost(promotions.directory, file, promotion)]
    if lost:
        raise StorageError(
            f"cannot undo promotion {promotion.number}: the previous content of "
            f"{promotions.directory / lost[0]} in {promotion.folder / OLD} is missing or changed"
        )
    for file in changed:
        _keep(promotions.directory / file.name, promotion.folder / REMOVED / file.name)
    return _restore(promotions, promotion.moved_on(PromotionPhase.UNDOING), step)


def _changed(directory: Path, file: FileChange) -> bool:
    """Whether a file has neither its promoted nor its previous content."""
    return digest_if_present(directory / file.name) not in (file.after, file.before)


def _lost(directory: Path, file: FileChange, promotion: Promotion) -> bool:
    """Whether the previous content is missing."""
    return file.before not in (
        None,
        digest_if_present(promotion.folder / OLD / file.name),
        digest_if_present(directory / file.name),
    )


def _restore(promotions: Promotions, promotion: Promotion, step: BeforeFile) -> Promotion:
    """Move old files back; those that are missing were moved back before."""
    for file in promotion.files:
        step(file.name)
        target_path, kept = promotions.directory / file.name, promotion.folder / OLD / file.name
        if file.before is None:
            forced = (promotion.folder / REMOVED / file.name).exists()
            if forced or digest_if_present(target_path) == file.after:
                _unlink(target_path)
        elif kept.exists():
            _move(kept, target_path)
    sync(promotions.directory)
    step("")
    shutil.rmtree(promotion.folder / NEW, ignore_errors=True)
    return promotion.moved_on(PromotionPhase.UNDONE)


def _keep(source: Path, target: Path) -> None:
    try:
        if source.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(source, target)
    except OSError as error:
        raise write_failure(target, error) from error


def _move(source: Path, target: Path) -> None:
    try:
        put_in_place(source, target)
    except OSError as error:
        raise write_failure(target, error) from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_failure(path, error) from error
