"""Which problems and processors a bank knows, found without parsing its entries.

What is found are hints: who follows one asks the bank for its entries. A file that has only grown
since is read from where it ended.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from skipjack.reading import open_plain

_PROBLEM, _DEVICE = b'"problem":"', b'"device":"'


@dataclass(slots=True)
class Outline:
    """Of one file."""

    families: dict[Family, dict[str, str]] = field(default_factory=dict)
    """Problems that differ in their sizes alone, by their shapes."""

    def add(self, problem: str) -> None:
        """Note a problem."""
        family, shape = family_of(problem)
        self.families.setdefault(family, {})[shape] = problem


Family = tuple[str, str]
"""The operation, and what follows the sizes in a problem's key."""


def family_of(problem: str) -> tuple[Family, str]:
    """A problem's key as what is common to all of its sizes, and its sizes."""
    operation, _, rest = problem.partition(":")
    ends = [at for at in (rest.find("/"), rest.find(":")) if at >= 0]
    end = min(ends, default=len(rest))
    return (operation, rest[end:]), rest[:end]


_files: WeakSet[OutlineFile] = WeakSet()


def _after_fork() -> None:
    """In a forked process: another thread may have been reading, and have left it half read."""
    for file in _files:
        file.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class OutlineFile:
    """The outline of a bank's file, made when it is asked for. Several threads may ask."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = (0, 0, 0)
        """Inode, date and size of what was read."""
        self._outline = Outline()
        self._reading = Lock()
        _files.add(self)

    def forget(self) -> None:
        """Read it anew when it is asked for next; nobody may be reading it."""
        self._seen, self._outline, self._reading = (0, 0, 0), Outline(), Lock()

    def get(self) -> Outline:
        """Of the file as it is; `OSError`, other than for a missing one."""
        with self._reading:
            try:
                descriptor = open_plain(self.path)
            except FileNotFoundError:
                self._seen, self._outline = (0, 0, 0), Outline()
                return self._outline
            try:
                self._read(descriptor)
            finally:
                os.close(descriptor)
            return self._outline

    def _read(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        now = (status.st_ino, status.st_mtime_ns, status.st_size)
        if now == self._seen or not status.st_size:
            return
        inode, _, size = self._seen
        start = size if inode == status.st_ino and size < status.st_size else 0
        if not start:
            self._outline = Outline()
        with mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ) as data:
            for problem in _texts(data, _PROBLEM, start):
                self._outline.add(problem)
        self._seen = now


def processors_of(path: Path) -> set[str]:
    """The processors that a bank's file has something for, as ``cpu:znver4``; `OSError`."""
    descriptor = open_plain(path)
    try:
        if not os.fstat(descriptor).st_size:
            return set()
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            return {device.partition("/")[0] for device in _texts(data, _DEVICE, 0)}
    finally:
        os.close(descriptor)


def _texts(data: mmap.mmap, name: bytes, start: int) -> Iterator[str]:
    """What each line has behind a name."""
    place = data.rfind(b"\n", 0, start) + 1
    while (at := data.find(name, place)) >= 0:
        at += len(name)
        yield data[at : data.find(b'"', at)].decode(errors="replace")
        end = data.find(b"\n", at)
        place = len(data) if end < 0 else end + 1
