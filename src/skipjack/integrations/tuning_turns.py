"""When a kernel may be tuned: not while a graph is recorded, and not by two processes at once."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from skipjack.errors import StorageError
from skipjack.execute.device_lock import slot_lock
from skipjack.integrations.kernel_identity import digest

log = logging.getLogger(__name__)

_LOCKS = 64
"""Kernels that are tuned at the same time by processes of one host, before two share a lock."""


class _Held(threading.local):
    """Whether this thread is inside of a tuning."""

    inside = False


_held = _Held()


@contextmanager
def one_at_a_time(problem: str) -> Iterator[None]:
    """Of the processes of a host that meet the same kernel at once, one tunes and others wait.

    They then find its results. A kernel that is called from a hook of one that is being tuned waits
    for nobody: it could be for itself, or for a process that waits for this one.
    """
    if _held.inside:
        yield
        return
    with ExitStack() as held:
        try:
            unit = int(digest(problem), 16) % _LOCKS
            held.enter_context(slot_lock("autotune", [unit], log.info))
        except StorageError as error:
            log.warning("tuning without a lock: %s", error)
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
