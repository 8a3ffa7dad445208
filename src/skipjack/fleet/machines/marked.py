"""Processes that bear a mark in their environment, which all that they start inherits.

That is how a node of ours is ended whole, whoever of its processes died before, and how nothing
else is touched: another Ray on the same machine does not bear the mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from skipjack.settings import RAY_NODE

MARK = RAY_NODE.name
"""The variable; its value is the node's id."""
_GENTLE_S = 8.0
_PATIENT_S = 2.0
_HARD_S = 5.0
_LOOK_S = 0.05
END_S = _GENTLE_S + _PATIENT_S + _HARD_S
"""Within this time they have ended, or do not."""


def marked(id: str) -> list[int]:
    """Processes of this user that bear the mark and have not ended."""
    word = f"{MARK}={id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word in (entry / "environ").read_bytes().split(b"\0") and not _ended(entry):
                found.append(int(entry.name))
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return sorted(pid for pid in found if pid != os.getpid())


def end_marked(id: str, first: int = 0) -> list[int]:
    """End them all, at first gently and beginning with `first`; gives those that do not end."""
    if first in marked(id):
        _send(first, signal.SIGTERM)  # it ends the others as they like it
        _wait_while(lambda: first in marked(id), _GENTLE_S)
    for pid in marked(id):
        _send(pid, signal.SIGTERM)
    _wait_while(lambda: bool(marked(id)), _PATIENT_S)
    deadline = time.monotonic() + _HARD_S
    # Again and again: one may start another while we look.
    while (rest := marked(id)) and time.monotonic() < deadline:
        for pid in rest:
            _send(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
    return marked(id)


def _wait_while(so: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while so() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _ended(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
