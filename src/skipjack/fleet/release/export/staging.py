"""Files of one export appear together: made in a folder beside their places, then moved there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.storage import output_directory
from skipjack.storage.failure import write_failure

_PREFIX, _SUFFIX = ".export-", ".tmp"


@dataclass(slots=True)
class Staging:
    """Where the new files are made."""

    directory: Path
    """Their places."""
    folder: Path
    _names: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """Where to make the file of this name; every name once."""
        if name in self._names:
            raise UsageError(f"{name} would be written twice; export these devices one by one")
        self._names.append(name)
        return self.folder / name

    @property
    def names(self) -> list[str]:
        """All that are to appear, in order; those to be moved last come last."""
        return list(self._names)


@contextlib.contextmanager
def staged(directory: Path) -> Iterator[Staging]:
    """A place for new files; at the end each replaces its older self, in the order they were made.

    If anything fails before that, the directory is as it was.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; name a directory to export to")
    try:
        directory.mkdir(parents=True, exist_ok=True)  # for others to read: files that ship
    except OSError as error:
        raise write_failure(directory, error) from error
    output_directory(directory)
    with _alone(directory):
        yield from _made(directory)


def _made(directory: Path) -> Iterator[Staging]:
    for left in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True)  # of somebody who was killed: we are alone here
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=directory))
    try:
        staging = Staging(directory, folder)
        yield staging
        for name in staging.names:
            if (directory / name).is_dir():
                raise UsageError(f"{directory / name} is a directory; move it away")
        for name in staging.names:
            made = folder / name
            made.chmod(0o666 & ~_umask())
            made.replace(directory / name)
    except OSError as error:
        raise write_failure(directory, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Others who export to the directory wait: they write one manifest."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems cannot
            raise StorageError(
                f"cannot lock {directory}: {error.strerror}; export to another file system and "
                "copy the files"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _umask() -> int:
    """What the user keeps from others; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
