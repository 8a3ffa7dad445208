"""Every thread of a process on a core of its own while something is timed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread on the last of some cores and all others on the rest, for a while.

    Every pool of threads, ours and the libraries', has one thread less than there are cores, and
    only one pool works at a time. Left to the system, a thread that wakes up is now and then put
    where this one already waits for it. Children started meanwhile would inherit the one core.
    """
    before = os.sched_getaffinity(0)
    for other in _other_threads() if len(cores) > 1 else ():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(other, cores[:-1])
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _other_threads() -> list[int]:
    """Of this process, without the calling one; none where the system does not list them."""
    me, directory = threading.get_native_id(), Path("/proc/self/task")
    ids = [int(task.name) for task in directory.iterdir()] if directory.is_dir() else []
    return [number for number in ids if number != me]
