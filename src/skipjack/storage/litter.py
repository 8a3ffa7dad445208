"""What killed writers leave behind: files and folders with names of their own, swept by the next.

A name says whose it is: ``.NAME.PID-TOKEN.tmp``. It is litter when nothing has touched it for an
hour and no process here has that id; the hour is for writers on other hosts of a shared directory,
whose clocks may differ. What is dated more than an hour ahead counts as old.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from skipjack import processes
from skipjack.storage.failure import write_failure

_STALE_S = 3600.0
_NAME = re.compile(r"\..+\.([0-9]{1,10})-[0-9a-f]{8}\.tmp|\.merge-[0-9a-z_]{8}")
"""The second form has no process id; earlier versions merged ledgers in such folders."""


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody else has, for what is to take its place."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def temporary_folder(directory: Path, name: str) -> Iterator[Path]:
    """A new folder in `directory`, gone with all that is in it at the end."""
    folder = temporary_name(directory / name)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise write_failure(folder, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(directory: Path) -> None:
    """Remove what writers in this directory left behind when they were killed."""
    try:
        entries = [entry for entry in os.scandir(directory) if entry.name.startswith(".")]
    except OSError:
        return  # whoever needs the directory says what is wrong with it
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is None or not _is_stale(entry) or (match[1] and processes.exists(int(match[1]))):
            continue
        with contextlib.suppress(OSError):  # another process sweeps as well, or may and we may not
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()


def _is_stale(entry: os.DirEntry[str]) -> bool:
    try:
        # A clock that was set back leaves files behind that are dated in the future.
        return abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > _STALE_S
    except OSError:
        return False
