"""Whether a process still runs, and which process of which machine it was.

A process id says nothing on another machine, after a restart, in another container, or once it was
given to another process: so the boot and the time at which the process began are compared too.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_MACHINE, _BOOT = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
_ENDED = ("Z", "X")
"""States of a process that is dead although its parent has not asked how it ended."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, told from all others there ever were; `boot` is empty where that is unknown."""

    host: str
    pid: int
    boot: str = ""
    """Same text: same machine, started at the same time, with the same process ids."""
    began: str = ""
    """In the kernel's ticks."""

    @property
    def gone(self) -> bool:
        """Whether it certainly ended: False for those of other machines, and whenever in doubt."""
        here = this_process()
        if not self.boot or (self.host, self.boot) != (here.host, here.boot):
            return False
        if not exists(self.pid):
            return True
        state, began = _stat(self.pid)
        return state in _ENDED or bool(began and self.began and began != self.began)


def exists(pid: int) -> bool:
    """Whether a process of any user has this id, even one that ended and was not reaped."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # there is one, of another user
    return True


def this_process() -> ProcessIdentity:
    """The one that asks."""
    pid = os.getpid()
    return ProcessIdentity(os.uname().nodename, pid, _this_boot(), began(pid))


def began(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty if that cannot be read."""
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, str]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def _this_boot() -> str:
    try:
        # Containers share a boot, and not their ids.
        namespace = Path("/proc/self/ns/pid").readlink()
        boot = _BOOT.read_text().strip()
    except OSError:
        return ""
    try:
        machine = _MACHINE.read_text().strip()
    except OSError:
        machine = ""
    # A machine's id is not to be shown to others, says its manual page: only a digest is.
    return hashlib.sha256(f"{machine} {boot} {namespace}".encode()).hexdigest()[:32]
