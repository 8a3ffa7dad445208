"""Setting a damaged file aside: it keeps its bytes under a new name, nothing is overwritten."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from skipjack.storage.clock import Clock, utc_now
from skipjack.storage.failure import write_failure


def set_aside(
    path: Path,
    *,
    companions: tuple[str, ...] = (),
    mark: str = "corrupt",
    clock: Clock = utc_now,
) -> Path:
    """Rename `path` to ``name.MARK-YYYYmmddTHHMMSS[-n]`` and return the new path.

    `companions` are suffixes of files that belong to it, such as ``-wal``; they move first, so that
    whoever creates `path` anew never meets the old ones. Callers that may be several at once hold a
    lock and look again before they call, or the second would set aside what the first made anew.
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
