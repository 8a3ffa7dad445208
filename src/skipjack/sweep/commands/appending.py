"""Logs among the files that builds write: those that a build appended to.

By content a log that grew cannot be told from a product that was written anew and happens to begin
as it did before. So files get room behind their end before a build, which nobody sees: writing a
file from scratch gives that room up, appending to it does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

_KEEP_SIZE = 1
_ROOM_BYTES = 1 << 20
_BLOCK_BYTES = 512
_MOST = 64
"""Files that are given room at a time; with more of them that end in a newline, none is."""
_LARGEST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class _Given:
    inode: int
    size: int
    room: bool
    """Whether the file system could give any."""


class Appending:
    """Which of some files a build appends to. Make one before it, ask after it."""

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self._directory = directory
        found = [name for name in names if _ends_with_newline(directory / name)]
        self._given = {}
        for name in found if len(found) <= _MOST else ():
            with contextlib.suppress(OSError):
                self._given[name] = _give_room(directory / name)

    def appended(self) -> tuple[str, ...]:
        """Files that have all that they had, and more behind it; the room is taken back."""
        return tuple(name for name, given in self._given.items() if self._grew(name, given))

    def _grew(self, name: str, given: _Given) -> bool:
        path = self._directory / name
        try:
            status = path.lstat()
            if status.st_ino != given.inode or status.st_size < given.size:
                return False
            if given.room:
                with path.open("r+b") as file:
                    file.truncate(status.st_size)
                    os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        except OSError:
            return False
        more = status.st_size - given.size
        if not given.room:
            return more > 0 and PurePath(name).suffix == ".log"
        # Beyond half the room a file written anew may have as many blocks.
        has_room = status.st_blocks * _BLOCK_BYTES >= given.size + _ROOM_BYTES
        return has_room and 0 < more <= _ROOM_BYTES // 2


def _ends_with_newline(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST_BYTES:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return False


def _give_room(path: Path) -> _Given:
    status = path.stat()
    with path.open("r+b") as file:
        given = sys.platform == "linux" and not _libc().fallocate(
            file.fileno(), _KEEP_SIZE, status.st_size, _ROOM_BYTES
        )
        if given:
            os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    return _Given(status.st_ino, status.st_size, given)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    offset = ctypes.c_int64
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, offset, offset)
    return libc
