"""Files that are written as a whole or not at all, swept when their writer was killed, and
quarantined when they are damaged.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from skipjack import processes
from skipjack.errors import StorageError

# Errors for files that cannot be written.


def write_failure(path: Path, error: OSError) -> StorageError:
    """The error to raise when writing `path` failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    return StorageError(f"cannot write {path}: {error.strerror or error}")


def disk_full(path: Path) -> StorageError:
    """The error to raise when the disk has no space for `path`."""
    return StorageError(
        f"disk full: no room to write {path}, nothing was changed; "
        "free some space there or choose another place "
        "(SKIPJACK_USER_DB_PATH for the user directory)"
    )


# Temporary files and folders, and the removal of those that killed writers left behind.
#
# The name has the owner's process id: ``.NAME.PID-TOKEN.tmp``. The file is removed if it was not
# changed for an hour and no process here has that id; the hour is for writers on other hosts of a
# shared directory, whose clocks may differ. A date more than an hour ahead counts as old.

_STALE_S = 3600.0
_NAME = re.compile(r"\..+\.([0-9]{1,10})-[0-9a-f]{8}\.tmp|\.merge-[0-9a-z_]{8}")
"""The second form has no process id; earlier versions merged ledgers in such folders."""


def temporary_name(path: Path) -> Path:
    """A unique name next to `path` for a file that will replace it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def temporary_folder(directory: Path, name: str) -> Iterator[Path]:
    """A new folder in `directory`, which is removed with its content at the end of the block."""
    folder = temporary_name(directory / name)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise write_failure(folder, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(directory: Path) -> None:
    """Remove temporary files and folders of killed writers from a directory."""
    try:
        entries = [entry for entry in os.scandir(directory) if entry.name.startswith(".")]
    except OSError:
        return  # the error is reported when the directory is used
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is None or not _is_stale(entry) or (match[1] and processes.exists(int(match[1]))):
            continue
        with contextlib.suppress(OSError):  # another process removed it, or we have no permission
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()


def _is_stale(entry: os.DirEntry[str]) -> bool:
    try:
        # After a clock was set back, files may have dates in the future.
        return abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > _STALE_S
    except OSError:
        return False


# Writing a file atomically: readers see the old content or the new, never a part.


def atomic_write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the content of `path` by `data`, which is on disk when this returns.

    Without `durable`, a power cut may leave the file damaged or missing: only for data that can be
    made again and is checked when read. On any failure the old file is unchanged and the temporary
    one is removed; errors of the operating system become `StorageError`.
    """
    with atomic_replacement(path, durable=durable) as temporary:
        write_synced(temporary, data, durable=durable)


@contextlib.contextmanager
def atomic_replacement(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path at which to write a file, which then replaces `path`.

    The content must be on disk at the end of the block. Failures are as for `atomic_write`. If
    `path` is a symbolic link, the file that it points to is replaced.
    """
    path = plain_file(path)
    temporary = temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # in a read-only directory there is no file to remove
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_failure(path, error) from error
        raise


def plain_file(path: Path) -> Path:
    """The path with links resolved; `StorageError` if it is not a plain file or a free name."""
    place = path.resolve() if path.is_symlink() else path
    # A link in /dev may lead to a plain file that a process has open: the shell's redirection.
    if (place.exists() and not place.is_file()) or path.absolute().is_relative_to("/dev"):
        raise StorageError(f"{path} is not a plain file; choose another name")
    return place


def write_synced(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a new file, which is on disk when this returns; for `atomic_replacement`."""
    with path.open("xb", buffering=0) as file:
        view = memoryview(data)
        while view:
            # A raw write may be short, notably just before a disk is full.
            view = view[file.write(view) :]
        if durable:
            os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some network file systems cannot sync a directory; the file itself was synced.
        pass
    finally:
        os.close(descriptor)


# Appending to a file atomically.


class AppendedFile:
    """``with AppendedFile(path) as file``: a file to append to; the caller holds its lock.

    At the end of the block the data is on disk; without `durable`, a power cut may lose it. On any
    failure the file keeps its length, and errors of the operating system become `StorageError`.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path, self._durable = path, durable
        self._descriptor = -1
        self.size = 0
        """The size of the file before."""

    def __enter__(self) -> AppendedFile:
        place = plain_file(self._path)
        try:
            self._descriptor = os.open(place, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            self.size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise write_failure(self._path, error) from error
        return self

    def status(self) -> os.stat_result:
        """The present status of the file."""
        return os.fstat(self._descriptor)

    def end(self, length: int) -> bytes:
        """Its last bytes, at most `length`."""
        size = self.status().st_size
        return os.pread(self._descriptor, length, max(0, size - length))

    def write(self, data: bytes) -> None:
        """Append data."""
        view = memoryview(data)
        while view:
            # A write may be short, notably just before a disk is full.
            view = view[os.write(self._descriptor, view) :]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        try:
            if error is None and self._durable:
                os.fsync(self._descriptor)
            elif error is not None:
                self._undo()
        except OSError as failed:
            self._undo()
            raise write_failure(self._path, failed) from failed
        finally:
            os.close(self._descriptor)
        if isinstance(error, OSError):
            raise write_failure(self._path, error) from error

    def _undo(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self.size)


# The time as a text that sorts by time. Tests pass their own clock.

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time by the wall clock."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds, always 27 characters: ``2025-01-31T09:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# Quarantining a damaged file: it keeps its bytes under a new name, and nothing is overwritten.


def quarantine(
    path: Path,
    *,
    companions: tuple[str, ...] = (),
    mark: str = "corrupt",
    clock: Clock = utc_now,
) -> Path:
    """Rename `path` to ``name.MARK-YYYYmmddTHHMMSS[-n]`` and return the new path.

    `companions` are suffixes of files that belong to it, such as ``-wal``; they are renamed first,
    so that a new file at `path` never has old companions. If several processes may call it, they
    hold a lock and check the file again first, or the second would rename the new file of the
    first.
    """
    try:
        target = _reserve(path, companions, f"{path.name}.{mark}-{clock():%Y%m%dT%H%M%S}")
        for suffix in companions:
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                companion.replace(target.with_name(target.name + suffix))
        _move(path, target)
    except OSError as error:
        raise write_failure(path, error) from error
    return target


def _move(path: Path, reserved: Path) -> None:
    try:
        path.replace(reserved)
    except OSError:
        reserved.unlink(missing_ok=True)
        raise


def _reserve(path: Path, companions: tuple[str, ...], name: str) -> Path:
    """Claim a free name by creating an empty file there, which no other process can do as well."""
    for number in itertools.count():
        target = path.with_name(f"{name}-{number}" if number else name)
        if any(target.with_name(target.name + suffix).exists() for suffix in companions):
            continue
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        return target
    raise AssertionError("unreachable: there is always a next number")
