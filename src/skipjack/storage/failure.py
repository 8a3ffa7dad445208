"""One sentence for what the operating system says when a file cannot be written."""

from __future__ import annotations

import errno
from pathlib import Path

from skipjack.errors import StorageError


def write_failure(path: Path, error: OSError) -> StorageError:
    """The error to raise when writing `path` failed: what, where, what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    return StorageError(f"cannot write {path}: {error.strerror or error}")


def disk_full(path: Path) -> StorageError:
    """The error to raise when there is no room for `path`."""
    return StorageError(
        f"disk full: no room to write {path}, nothing was changed; "
        "free some space there or choose another place "
        "(SKIPJACK_USER_DB_PATH for the user directory)"
    )
