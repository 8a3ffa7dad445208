"""Writing a file so that readers see the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.storage.failure import write_failure
from skipjack.storage.litter import temporary_name


def atomic_write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data`, on disk when this returns.

    Without `durable` a power cut may leave the file damaged or missing: only for what can be made
    again and is checked when read. On any failure the old file is as it was and the temporary one
    is gone; the operating system's errors become `StorageError`.
    """
    with atomic_replacement(path, durable=durable) as temporary:
        write_synced(temporary, data, durable=durable)


@contextlib.contextmanager
def atomic_replacement(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A name beside `path` to make a file at, which then takes the place of `path`.

    The content must be on disk at the end of the block. Failures are as for `atomic_write`. A link
    stays one: what it leads to is replaced.
    """
    path = plain_file(path)
    temporary = temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing was
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_failure(path, error) from error
        raise


def plain_file(path: Path) -> Path:
    """Where a file of this name lies, links followed; `StorageError` if it cannot be replaced."""
    place = path.resolve() if path.is_symlink() else path
    # A link in /dev may lead to a plain file that somebody has open: the shell's redirection.
    if (place.exists() and not place.is_file()) or path.absolute().is_relative_to("/dev"):
        raise StorageError(f"{path} is not a plain file; choose another name")
    return place


def write_synced(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Make a new file, on disk when this returns; for `atomic_replacement`."""
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
        # Some network file systems cannot sync a directory; the content itself was synced.
        pass
    finally:
        os.close(descriptor)
