"""Moving a finished file to its place, which may be a link to where the file really lies."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.storage.atomic import atomic_replacement, plain_file

PACKED = ".bz2"
"""What the names of packed databases end with; they are read, and never written."""


def check_places(directory: Path, names: Iterable[str]) -> None:
    """`UsageError` for places that cannot be written to, before the first file is moved."""
    taken: dict[Path, str] = {}
    for name in names:
        path = directory / name
        if path.is_dir():
            raise UsageError(f"{path} is a directory; move it away")
        if path.is_symlink() and not path.exists():
            raise UsageError(f"{path} is a link to a file that is not there; remove the link")
        place = plain_file(path)
        other = taken.setdefault(place.resolve(), name)
        if other != name:
            raise UsageError(
                f"{path} and {directory / other} are one file ({place}); each device needs a file "
                "of its own, so remove the link, or choose one with --device"
            )


def put_in_place(source: Path, target: Path) -> None:
    """Let a file take the place of another at once; a link stays, and leads to the new content."""
    place = plain_file(target)
    try:
        source.replace(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_replacement(place) as beside:  # a link may lead to another disk
            shutil.copy2(source, beside)
            sync(beside)
        source.unlink()
    if place != target:
        sync(place.parent)


def sync(path: Path) -> None:
    """See to it that a file's content, or a directory's entries, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some network file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)
