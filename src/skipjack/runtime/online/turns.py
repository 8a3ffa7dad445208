"""When something may be tuned: not while a graph is recorded, and not by two processes at once."""

from __future__ import annotations

import hashlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from skipjack.errors import StorageError
from skipjack.execute.device_lock import slot_lock

log = logging.getLogger(__name__)

_LOCKS = 64
"""Problems that are tuned at the same time by processes of one host, before two share a lock."""


_held = threading.local()
"""Has `inside` while its thread is inside of a tuning."""


class TurnTimeoutError(StorageError):
    """Another process was still at the same problem when the time was over."""


@contextmanager
def one_at_a_time(problem: str, timeout_s: float | None = None) -> Iterator[None]:
    """Of the processes of a host that meet the same problem at once, one tunes and others wait.

    They then find its results. A kernel that is called from a hook of one that is being tuned waits
    for nobody: it could be for itself, or for a process that waits for this one. Without a place
    for locks nobody waits. `TurnTimeoutError` where it takes longer than `timeout_s`.
    """
    if getattr(_held, "inside", False):
        yield
        return
    waiting: list[str] = []
    with ExitStack() as held:
        try:
            unit = int(hashlib.sha256(problem.encode()).hexdigest(), 16) % _LOCKS
            held.enter_context(slot_lock("autotune", [unit], waiting.append, timeout_s))
        except StorageError as error:
            if waiting:
                raise TurnTimeoutError(str(error)) from error
            log.warning("tuning without a lock: %s", error)
        for sentence in waiting:
            log.info("%s", sentence)
        _held.inside = True
        try:
            yield
        finally:
            _held.inside = False


def is_recording() -> bool:
    """Whether the caller is recording a graph, in which nothing can be timed."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return False
    recording: bool = torch.cuda.is_current_stream_capturing()
    return recording
