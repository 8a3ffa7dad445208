"""What a fork waits for: locks and background work of other threads.

A forked process has one thread. A lock that another thread of its parent held at that moment stays
locked in it for good, and so does a module that another thread was importing. The locks are taken
in one order, the outermost first, as code that holds several of them takes them: in any other order
a fork and that code would wait for each other.
"""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class ForkOrder(enum.IntEnum):
    """Which lock is taken first; code that holds one takes only later ones."""

    NEXT_WORK = enum.auto()
    WORK = enum.auto()
    DEFAULT_KERNEL = enum.auto()
    LOADING = enum.auto()
    POOL_CALLS = enum.auto()
    POOLS = enum.auto()
    LLVM_IMPORT = enum.auto()
    LLVM = enum.auto()


class ForkLock(Protocol):
    """A `Lock`, an `RLock`, or llvmlite's own: that has no `acquire`."""

    def __enter__(self) -> object: ...
    def __exit__(self, kind: None, value: None, traceback: None, /) -> object: ...


_locks: dict[ForkOrder, ForkLock] = {}
_held: list[ForkLock] = []
"""By the thread that forks: one at a time, since it holds all of them."""


def forks_wait_for(lock: ForkLock, order: ForkOrder) -> None:
    """Let no thread hold this lock when another forks; there is one lock of each order."""
    _locks[order] = lock


_next, _working = threading.Lock(), threading.RLock()
forks_wait_for(_next, ForkOrder.NEXT_WORK)
forks_wait_for(_working, ForkOrder.WORK)


@contextmanager
def background_work() -> Iterator[None]:
    """While this lasts no other thread forks; pieces of work wait for each other.

    A fork waits for the piece that is being done, and goes before the next one.
    """
    with _next:  # held by a fork that waits
        _working.acquire()
    try:
        yield
    finally:
        _working.release()


def _before() -> None:
    taken: list[ForkLock] = []
    try:
        for _, lock in sorted(_locks.items()):
            lock.__enter__()
            taken.append(lock)
    finally:  # Ctrl-C while it waits: the fork takes place all the same
        _held[:] = taken


def _after() -> None:
    taken, _held[:] = _held[:], []
    for lock in reversed(taken):
        lock.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
