"""What trials may take: a share of the program's kernel time, over all of its processes.

Two sums of nanoseconds lie in a small file of the user directory that the processes of a program
share: what kernels took, and what trials took. A program is a process group, as a shell or a
launcher starts one; where ranks have groups of their own, each keeps to the share of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skipjack.processes import began, this_process

FOLDER = "online"
_PREFIX = "regret-"
_SUMS = struct.Struct("<QQ")
_PATIENCE_S, _TRIAL_PATIENCE_S, _PAUSE_S = 0.01, 1.0, 0.001
"""For other processes, which hold the file for microseconds: of who calls kernels, which must not
wait, and of who has made trials, which must be counted."""
_KEPT_S = 7 * 86_400.0
"""Files that nobody has written to for so long are removed, whatever machine they are of."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Sums so far."""

    kernel_ns: int = 0
    trial_ns: int = 0

    def allow(self, share: float, next_ns: float = 0.0) -> bool:
        """Whether trials that take this long would keep to their share."""
        return self.trial_ns + next_ns <= share * self.kernel_ns


class RegretAccount:
    """The sums of one program. Where the file cannot be used, nothing is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, kernel_ns: int = 0, trial_ns: int = 0) -> KernelTimes:
        """Add to the sums; gives what they are then."""
        try:
            with self._locked(_TRIAL_PATIENCE_S if trial_ns else _PATIENCE_S) as file:
                before = os.pread(file, _SUMS.size, 0)
                sums = _SUMS.unpack(before) if len(before) == _SUMS.size else (0, 0)
                now = KernelTimes(sums[0] + kernel_ns, sums[1] + trial_ns)
                if kernel_ns or trial_ns:
                    os.pwrite(file, _SUMS.pack(now.kernel_ns, now.trial_ns), 0)
                return now
        except OSError:
            return KernelTimes(0, 1)

    @contextlib.contextmanager
    def _locked(self, patience_s: float) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, flags, 0o600)
        try:
            _lock(file, patience_s)
            try:
                yield file
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a process that was just forked has the file, too
        finally:
            os.close(file)


def _lock(file: int, patience_s: float) -> None:
    """`TimeoutError` where others hold it too long: one of them may have been stopped."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError(f"the sums are locked for {patience_s:g} s") from None
        time.sleep(_PAUSE_S)


def account_of_program(user_dir: Path) -> RegretAccount:
    """The account of the program that this process is of."""
    group = os.getpgid(0)
    folder = user_dir / FOLDER
    path = folder / f"{_PREFIX}{group}-{began(group) or '0'}-{_machine()}"
    if not path.exists():
        _forget_others(folder)
    return RegretAccount(path)


def _forget_others(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{_PREFIX}*"):
            if path.stat().st_mtime < time.time() - _KEPT_S or _has_ended(path):
                path.unlink(missing_ok=True)


def _machine() -> str:
    """Where and when process ids mean what they mean here; empty if that is unknown."""
    here = this_process()
    return hashlib.sha256(f"{here.host} {here.boot}".encode()).hexdigest()[:8] if here.boot else ""


def _has_ended(path: Path) -> bool:
    """Whether the file is of a program of this machine of which no process is left."""
    group, _, rest = path.name.removeprefix(_PREFIX).partition("-")
    since, _, machine = rest.partition("-")
    if not group.isdigit() or not machine or machine != _machine():
        return False
    try:
        os.killpg(int(group), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    now = began(int(group))
    return bool(now) and now != since  # the number was given to another program
