"""Files of one export appear together: made in a folder beside their places, then moved there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.release.directory_lock import directory_lock
from skipjack.fleet.release.placing import check_places, put_in_place
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

    If anything fails before the first is moved, all is as it was: directories that were made for
    this are gone again. Who is killed between two moves leaves new files beside old ones.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; name a directory to export to")
    with _there(directory):
        output_directory(directory)
        one = directory.stat().st_ino
        with directory_lock(directory):
            if not directory.exists() or directory.stat().st_ino != one:
                # Who had made it failed, and took it away while we waited.
                raise StorageError(f"{directory} was removed by another process; try again")
            yield from _made(directory)


@contextlib.contextmanager
def _there(directory: Path) -> Iterator[None]:
    """The directory is there; if what follows fails, those that were made are not."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)  # for others to read: files that ship
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # somebody else may have put something there
            for each in missing:
                each.rmdir()
        if isinstance(error, OSError):
            raise write_failure(directory, error) from error
        raise


def _made(directory: Path) -> Iterator[Staging]:
    for left in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True)  # of somebody who was killed: we are alone here
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
    """What the user keeps from others; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
