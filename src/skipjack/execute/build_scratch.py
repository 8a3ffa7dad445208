"""Where compilers put their temporary files: a folder that is gone when its builds are.

A process that is killed cannot tidy up. It held a lock, though, which the system let go: whoever
builds next finds the folder without an owner and takes it away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.storage import FileLock

PREFIX = "skipjack-build-"
_LOCK = "owner.lock"
_NEW_S = 60.0
"""A folder so young may be one whose lock is about to be taken."""


class BuildScratch:
    """A folder among the temporary files, with a lock in it while it is used."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self._directory = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self._lock = FileLock(Path(self.name) / _LOCK)
        self._lock.__enter__()

    @property
    def name(self) -> str:
        """Its path."""
        return self._directory.name

    def close(self) -> None:
        """Remove it with everything in it."""
        self._directory.cleanup()
        self._lock.__exit__(None, None, None)


def sweep(temporary: Path) -> None:
    """Remove what builds of this user left behind that were killed."""
    for folder in temporary.glob(f"{PREFIX}*"):
        if _left_behind(folder / _LOCK):
            shutil.rmtree(folder, ignore_errors=True)


def _left_behind(lock: Path) -> bool:
    """Whether nobody holds the lock of a folder that is ours."""
    try:
        found = lock.lstat()
        if found.st_uid != os.getuid() or time.time() - found.st_mtime < _NEW_S:
            return False
        with FileLock(lock, timeout_s=0.0):
            return True
    except (OSError, StorageError):
        return False
