"""Processes and what they started, known by number and start: numbers are used again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Process:
    """One process of this machine; it stays the same one after it has ended."""

    pid: int
    started: int
    """In ticks since the machine was started."""

    @property
    def alive(self) -> bool:
        """Whether it runs; one that ended and was not waited for does not."""
        found = _look(self.pid)
        return found is not None and found.started == self.started and found.state != "Z"

    @property
    def words(self) -> str:
        """Its command line."""
        try:
            return Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def send(self, number: signal.Signals) -> bool:
        """Signal it if it is still there."""
        if not self.alive:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False


@dataclass(frozen=True)
class _Look:
    parent: int
    state: str
    started: int


def process(pid: int) -> Process:
    """The process that has this number now."""
    found = _look(pid)
    return Process(pid, found.started if found else 0)


def below(*roots: int) -> list[Process]:
    """What these processes started, and what that started, oldest first."""
    looks = {}
    for entry in Path("/proc").glob("[0-9]*"):
        found = _look(int(entry.name))
        if found and found.state != "Z":
            looks[int(entry.name)] = found
    family = set(roots)
    while more := {pid for pid, look in looks.items() if look.parent in family} - family:
        family |= more
    found_below = [Process(pid, looks[pid].started) for pid in family - set(roots) if pid in looks]
    return sorted(found_below, key=lambda one: (one.started, one.pid))


def survivors(processes: Iterable[Process], within_s: float) -> list[Process]:
    """Which of them are still there after so long."""
    deadline = time.monotonic() + within_s
    while (left := [one for one in processes if one.alive]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _look(pid: int) -> _Look | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return _Look(int(fields[1]), fields[0], int(fields[19]))
    except (OSError, IndexError, ValueError):
        return None
