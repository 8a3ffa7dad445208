"""The one lock of a directory of databases: exports, promotions and undoing wait for each other."""

from __future__ import annotations

import logging
from pathlib import Path

from skipjack.storage import FileLock, atomic_write, is_network_file_system
from skipjack.storage.failure import write_failure

log = logging.getLogger(__name__)

HIDDEN = ".skipjack"
"""Beside the databases: what is kept for undoing."""
_PATIENCE_S = 60.0


def directory_lock(directory: Path) -> FileLock:
    """Held by whoever changes the files of a directory, which must be there.

    The directory itself is locked, so that an export leaves nothing but its files. Network file
    systems lock only what can be written to: there it is a file in the hidden folder.
    """
    place = directory.resolve()
    by_file = is_network_file_system(place)
    if by_file:
        place = hidden_folder(directory) / "lock"
    return FileLock(place, log.warning, timeout_s=_PATIENCE_S, public=True, directory=not by_file)


def hidden_folder(directory: Path) -> Path:
    """The folder beside the databases, made if need be; Git ignores it."""
    folder = directory / HIDDEN
    try:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            # What is kept for undoing is no part of what is reviewed and shipped.
            atomic_write(ignore, b"*\n", durable=False)
    except OSError as error:
        raise write_failure(folder, error) from error
    return folder
