"""The file of missed problems: lines that many processes append, whose sum is what was missed.

A line that a killed process left unfinished is passed over. When lines are many more than problems
the file is written anew, one line for each.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from skipjack.errors import MalformedError
from skipjack.reading import read_json
from skipjack.storage import AppendedFile, FileLock, atomic_write, ensure_directory, write_failure

FILE_NAME = "misses.jsonl"
FORMAT = 1
_COMPACT_BYTES = 1 << 18
"""A file that is larger, and of which at most a quarter is needed, is written anew."""
_WAIT_S = 0.5
"""For others who write: a program has better things to do."""


@dataclass(frozen=True, slots=True)
class MissedProblem:
    """A problem that no bank knew on a device; or what one process adds to that."""

    problem: str
    """The whole key."""
    device: str
    """As ``znver4/1``."""
    device_class: str
    lookups: int = 0
    """Without those that were answered from memory."""
    calls: int = 0
    """Of the kernel that answered instead."""
    time_ns: int = 0
    """What these calls took, as far as samples tell."""
    sent: bool = False
    """Whether the fleet has a job for it."""

    @property
    def key(self) -> tuple[str, str]:
        """Lines with equal keys are of one problem."""
        return self.problem, self.device_class

    @property
    def worth(self) -> tuple[int, int, int, str, str]:
        """The most valuable first, when sorted: by time spent, calls, lookups."""
        return -self.time_ns, -self.calls, -self.lookups, self.problem, self.device_class

    def __add__(self, other: MissedProblem) -> MissedProblem:
        return replace(
            self,
            lookups=self.lookups + other.lookups,
            calls=self.calls + other.calls,
            time_ns=self.time_ns + other.time_ns,
            sent=self.sent or other.sent,
        )

    def line(self) -> bytes:
        """As it stands in the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode() + b"\n"


class MissFile:
    """Of one user directory. Writing may raise `StorageError`; reading never does."""

    def __init__(self, user_dir: Path) -> None:
        self.path = user_dir / FILE_NAME

    def missed(self) -> list[MissedProblem]:
        """Each problem once, the most valuable first."""
        return sorted(self._sums().values(), key=lambda one: one.worth)

    def add(self, lines: Iterable[MissedProblem]) -> None:
        """Append what was missed."""
        data = b"".join(one.line() for one in lines)
        with self._lock():
            self._make()
            with AppendedFile(self.path, durable=False) as file:
                torn = file.end(1) not in (b"\n", b"")
                file.write(b"\n" * torn + data)
                size = file.size + len(data)
            if size > _COMPACT_BYTES:
                self._compact(size)

    def drop(self, known: Callable[[MissedProblem], bool]) -> int:
        """Forget problems, for example those that a bank knows by now; how many there were."""
        if not self.path.exists():
            return 0
        with self._lock():
            sums = self._sums()
            left = [one for one in sums.values() if not known(one)]
            if len(left) < len(sums):
                self._write(left)
            return len(sums) - len(left)

    def _lock(self) -> FileLock:
        ensure_parent(self.path)
        return FileLock(self.path.with_suffix(".lock"), timeout_s=_WAIT_S)

    def _make(self) -> None:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise write_failure(self.path, error) from error

    def _compact(self, size: int) -> None:
        sums = self._sums().values()
        if 4 * sum(len(one.line()) for one in sums) < size:
            self._write(sums)

    def _write(self, sums: Iterable[MissedProblem]) -> None:
        lines = sorted(sums, key=lambda one: one.worth)
        atomic_write(self.path, b"".join(one.line() for one in lines), durable=False)

    def _sums(self) -> dict[tuple[str, str], MissedProblem]:
        sums: dict[tuple[str, str], MissedProblem] = {}
        with contextlib.suppress(OSError):
            for line in self.path.read_bytes().splitlines():
                if one := _read(line):
                    sums[one.key] = sums[one.key] + one if one.key in sums else one
        return sums


def ensure_parent(path: Path) -> None:
    """Make the user directory if it is not there; `StorageError`."""
    if not path.parent.is_dir():
        ensure_directory(path.parent)


def _read(line: bytes) -> MissedProblem | None:
    """What a line says; None for one that is torn, or of a format that is not known yet."""
    try:
        return read_json(line).without("format", FORMAT).of(MissedProblem)
    except MalformedError:
        return None
