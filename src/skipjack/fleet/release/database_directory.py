"""The directory of databases: its lock, its hidden folder, and moving finished files into place."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.storage import (
    FileLock,
    atomic_replacement,
    atomic_write,
    is_network_file_system,
    plain_file,
    write_failure,
)

# The lock of a directory of databases, which exports, promotions and undo share.

log = logging.getLogger(__name__)

HIDDEN = ".skipjack"
"""The folder in a directory of databases with the data for undo."""
_PATIENCE_S = 60.0


def directory_lock(directory: Path) -> FileLock:
    """The lock for changing the files of an existing directory.

    The directory itself is locked, so that an export leaves no other files. Network file systems
    can lock only writable files, so there a file in the hidden folder is locked.
    """
    target = directory.resolve()
    by_file = is_network_file_system(target)
    if by_file:
        target = hidden_folder(directory) / "lock"
    return FileLock(target, log.warning, timeout_s=_PATIENCE_S, public=True, directory=not by_file)


def hidden_folder(directory: Path) -> Path:
    """The hidden folder, created if necessary; Git ignores it."""
    folder = directory / HIDDEN
    try:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            # Data for undo must not be reviewed or shipped with the databases.
            atomic_write(ignore, b"*\n", durable=False)
    except OSError as error:
        raise write_failure(folder, error) from error
    return folder


# Moving finished files into place; the target may be a link to another file.

PACKED = ".bz2"
"""Ending of packed databases, which are read but never written."""


def check_places(directory: Path, names: Iterable[str]) -> None:
    """`UsageError` for targets that cannot be written, before the first file is moved."""
    taken: dict[Path, str] = {}
    for name in names:
        path = directory / name
        if path.is_dir():
            raise UsageError(f"{path} is a directory; move it away")
        if path.is_symlink() and not path.exists():
            raise UsageError(f"{path} is a link to a missing file; remove the link")
        destination = plain_file(path)
        other = taken.setdefault(destination.resolve(), name)
        if other != name:
            raise UsageError(
                f"{path} and {directory / other} are the same file ({destination}); each device "
                "needs its own file: remove the link, or choose one device with --device"
            )


def put_in_place(source: Path, target: Path) -> None:
    """Atomically replace a file; a link is kept and refers to the new content."""
    destination = plain_file(target)
    try:
        source.replace(destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_replacement(destination) as beside:  # a link may refer to another disk
            shutil.copy2(source, beside)
            sync(beside)
        source.unlink()
    if destination != target:
        sync(destination.parent)


def sync(path: Path) -> None:
    """Flush the content of a file or the entries of a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some network file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)
