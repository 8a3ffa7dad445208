"""The directory that everything a user keeps lives in."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.settings import Settings
from skipjack.storage.failure import disk_full
from skipjack.storage.litter import sweep

_ADVICE = "make it writable or choose another one"
_OF_THE_USER = f"{_ADVICE} (SKIPJACK_USER_DB_PATH is the user directory)"


def user_directory(settings: Settings) -> Path:
    """The user directory, created if need be, known to be writable, and swept."""
    directory = ensure_directory(settings.user_dir)
    sweep(directory)
    return directory


def output_directory(directory: Path) -> Path:
    """As `ensure_directory`, for a place that the user has named for results."""
    return ensure_directory(directory, _ADVICE)


def can_create_in(directory: Path) -> bool:
    """Whether files can be made there; permission bits do not tell about read-only mounts."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def ensure_directory(directory: Path, advice: str = _OF_THE_USER) -> Path:
    """Create a directory, private to the user if new, and check that files can be made in it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Permission bits do not tell about read-only mounts or quotas: try.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(directory) from error
        reason = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise StorageError(f"cannot use the directory {directory}: {reason}; {advice}") from error
    return directory
