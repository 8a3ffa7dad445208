"""The ``skipjack`` command as a process, and the workers that processes leave or do not leave."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

PATIENCE_S = 600.0
"""How long tests wait for what happens sooner or later: a busy machine fails none of them."""


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of ``skipjack`` with these arguments."""
    return [sys.executable, "-m", "skipjack.cli.main", *arguments]


def workers_of(parent: int) -> set[int]:
    """Process ids of a process's living workers."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        ours = (
            b"skipjack.execute.pool.worker_main" in words or b"skipjack.fleet.work.worker" in words
        )
        if int(fields[1]) == parent and fields[0] != "Z" and ours:
            found.add(int(entry.name))
    return found


def gone(pids: set[int], within_s: float = PATIENCE_S) -> bool:
    """Whether these processes end, sooner or later."""
    deadline = time.monotonic() + within_s
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
