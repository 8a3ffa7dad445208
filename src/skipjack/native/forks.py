"""What a fork waits for: locks and background work of other threads.

A forked process has one thread. A lock that another thread of its parent held at that moment stays
locked in it for good, and so does a module that another thread was importing. The locks are taken
in one order, the outermost first, as code that holds several of them takes them: in any other order
a fork and that code would wait for each other.
"""

from __future__ import annotations

# A fork runs the hooks first that were registered last. Those of executors and of logging take
# locks that work may need: ours has to wait for the work before they do.
import concurrent.futures.thread  # noqa: F401
import enum
import logging  # noqa: F401
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
_forking = threading.local()
"""`held` by a thread that forks: locks, in the order in which it took them."""


def forks_wait_for(lock: ForkLock, order: ForkOrder) -> None:
    """Let no thread hold this lock when another forks; there is one lock of each order."""
    _locks[order] = lock


_next, _working = threading.Lock(), threading.Lock()
_worker: int | None = None
"""The thread that does background work."""
forks_wait_for(_next, ForkOrder.NEXT_WORK)
forks_wait_for(_working, ForkOrder.WORK)


def _works() -> bool:
    return _worker == threading.get_ident()


@contextmanager
def background_work() -> Iterator[None]:
    """While this lasts no other thread forks; pieces of work wait for each other.

    A fork waits for the piece that is being done, and goes before the next one. Work may fork
    itself.
    """
    global _worker
    if _works():
        yield
        return
    with _next:  # held by a fork that waits
        _working.acquire()
    _worker = threading.get_ident()
    try:
        yield
    finally:
        _worker = None
        _working.release()


def _before() -> None:
    held: list[ForkLock] = []
    _forking.held = held
    for order in ForkOrder:
        if order <= ForkOrder.WORK and _works():
            continue
        # Looked up when its turn comes: LLVM's lock is there only when LLVM has been imported.
        if (lock := _locks.get(order)) is not None:
            lock.__enter__()
            held.append(lock)


def _after_in_parent() -> None:
    # After Ctrl-C while it waited, the fork took place with fewer locks.
    for lock in reversed(_forking.held):
        lock.__exit__(None, None, None)
    _forking.held = []


def _after_in_child() -> None:
    global _next, _working
    _after_in_parent()
    # Another thread's fork may have held the first, where this thread is at work.
    _next, _working = threading.Lock(), threading.Lock()
    forks_wait_for(_next, ForkOrder.NEXT_WORK)
    forks_wait_for(_working, ForkOrder.WORK)
    if _works():
        _working.acquire()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
