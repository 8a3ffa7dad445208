"""Snapshots of the working directory, and copies of the files that a build leaves there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

MOST_FILES = 100_000
"""A working directory with more files is not searched."""
_SKIPPED = frozenset((".git", ".hg", ".svn", "__pycache__"))
_NO_SOURCES = frozenset(
    (
        *(".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
        *(".ipynb_checkpoints", ".idea", ".vscode", ".tox", ".nox"),
    )
)
_ENVIRONMENT = "pyvenv.cfg"
"""A file in each virtual environment."""
_TOLD_BY = ("st_mtime_ns", "st_size", "st_mode")
_FICLONE = 0x40049409
_CHUNK = 1 << 20

Stamp = tuple[int, ...]
"""Times, size and inode of a file, which differ after any change."""


Snapshot = Mapping[str, Stamp]
"""The files below a directory at one moment, by relative path."""


def changed(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Files that are new or changed."""
    return tuple(name for name, stamp in after.items() if before.get(name) != stamp)


def snapshot(
    directory: Path, skip: Iterable[Path] = (), *, without_environments: bool = False
) -> Snapshot | None:
    """All files below a directory, without version control and `skip`; None if there are too many.

    `without_environments` also leaves out virtual environments and caches of tools.
    """
    without = {str(path.resolve()) for path in skip}
    names = _SKIPPED | _NO_SOURCES if without_environments else _SKIPPED
    stamps: dict[str, Stamp] = {}
    root = str(directory.resolve())
    left, start = [root], len(root.rstrip("/")) + 1
    while left:
        with contextlib.suppress(OSError), os.scandir(folder := left.pop()) as scanned:
            entries = list(scanned)
            if (
                without_environments
                and folder != root
                and any(entry.name == _ENVIRONMENT for entry in entries)
            ):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in names and entry.path not in without:
                        left.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    continue
                elif len(stamps) >= MOST_FILES:
                    return None
                else:
                    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                        stamps[entry.path[start:]] = _stamp(entry.stat(follow_symlinks=False))
    return stamps


def stamps_of(directory: Path, names: Iterable[str]) -> Snapshot:
    """A snapshot of these files, as far as they exist."""
    stamps = {}
    for name in names:
        with contextlib.suppress(OSError):
            stamps[name] = _stamp((directory / name).lstat())
    return stamps


def files_of(directory: Path, outputs: Sequence[str | Path]) -> tuple[str, ...]:
    """The files at paths that the user gave: the paths themselves, or all files below them."""
    found: dict[str, None] = {}
    for output in outputs:
        path = directory / output
        below = [path]
        if path.is_dir() and not path.is_symlink():
            below = sorted(one for one in path.rglob("*") if one.is_symlink() or not one.is_dir())
        for one in below:
            if one.is_symlink() or one.is_file():
                found[os.path.relpath(one, directory)] = None
    return tuple(found)


def keep(names: Iterable[str], directory: Path, place: Path) -> int:
    """Copy files from the working directory to `place`; returns their size in bytes."""
    total = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            total += copy(directory / name, place / name)
    return total


def restore(names: Iterable[str], place: Path, directory: Path) -> int:
    """Copy kept files to the working directory where they differ; returns how many did."""
    count = 0
    for name in names:
        kept, present = place / name, directory / name
        if (kept.is_symlink() or kept.exists()) and not _same(kept, present):
            copy(kept, present)
            count += 1
    return count


def is_copy(present: Path, kept: Path) -> bool:
    """Whether a file is unchanged since it was kept, by time, size and mode."""
    try:
        now, then = present.lstat(), kept.lstat()
        if kept.is_symlink() and present.is_symlink():
            return kept.readlink() == present.readlink()
    except OSError:
        return False
    return all(getattr(now, one) == getattr(then, one) for one in _TOLD_BY)


def has_grown(present: Path, kept: Path) -> bool:
    """Whether a file begins with the content that was kept."""
    try:
        if kept.is_symlink() or present.is_symlink() or not kept.stat().st_size:
            return False
    except OSError:
        return False
    return _begins_with(present, kept, exactly=False)


def copy(source: Path, target: Path) -> int:
    """Copy a file with its times and permissions; the target is replaced atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.skipjack")
    try:
        if source.is_symlink():
            temporary.symlink_to(source.readlink())
        else:
            _copy_bytes(source, temporary)
            shutil.copystat(source, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target.lstat().st_size


def _copy_bytes(source: Path, target: Path) -> None:
    """Copy by sharing blocks if the file system can, otherwise byte by byte."""
    with source.open("rb") as reading, target.open("wb") as writing:
        try:
            fcntl.ioctl(writing.fileno(), _FICLONE, reading.fileno())
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            shutil.copyfileobj(reading, writing, _CHUNK)


def _same(kept: Path, present: Path) -> bool:
    """Whether the bytes are equal. Times are too coarse to tell: some milliseconds."""
    if kept.is_symlink() or present.is_symlink():
        return kept.is_symlink() and present.is_symlink() and kept.readlink() == present.readlink()
    return _begins_with(present, kept, exactly=True)


def _begins_with(longer: Path, shorter: Path, exactly: bool) -> bool:
    try:
        sizes = longer.stat().st_size, shorter.stat().st_size
        if sizes[0] < sizes[1] or (exactly and sizes[0] != sizes[1]):
            return False
        with longer.open("rb") as left, shorter.open("rb") as right:
            while chunk := right.read(_CHUNK):
                if left.read(len(chunk)) != chunk:
                    return False
    except FileNotFoundError:
        return False
    return True


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
