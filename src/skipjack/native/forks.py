"""Locks that a fork acquires first, and background work of other threads that it waits for.

A forked process has one thread. A lock that another thread held at the time of the fork stays
locked in it forever, and so does the import lock of a module that another thread was importing. All
locks are acquired in one order, the outermost first, as in code that holds several of them: in any
other order a fork and that code would deadlock.
"""

from __future__ import annotations

# A fork runs the hooks that were registered last first. The hooks of executors and logging acquire
# locks that background work may need, so ours has to wait for the work before they run.
import concurrent.futures.thread  # noqa: F401
import enum
import logging  # noqa: F401
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class ForkOrder(enum.IntEnum):
    """The order of acquisition; code that holds a lock acquires only later ones."""

    NEXT_WORK = enum.auto()
    WORK = enum.auto()
    DEFAULT_KERNEL = enum.auto()
    LOADING = enum.auto()
    POOL_CALLS = enum.auto()
    POOLS = enum.auto()
    LLVM_IMPORT = enum.auto()
    LLVM = enum.auto()


class ForkLock(Protocol):
    """A `Lock`, an `RLock`, or llvmlite's lock, which has no `acquire`."""

    def __enter__(self) -> object: ...
    def __exit__(self, kind: None, value: None, traceback: None, /) -> object: ...


_locks: dict[ForkOrder, ForkLock] = {}
_forking = threading.local()
"""`held`: the locks that a forking thread has acquired, in order."""


def forks_wait_for(lock: ForkLock, order: ForkOrder) -> None:
    """Acquire this lock before each fork; there is one lock for each order."""
    _locks[order] = lock


_next, _working = threading.Lock(), threading.Lock()
_worker: int | None = None
"""The thread that is doing background work."""
forks_wait_for(_next, ForkOrder.NEXT_WORK)
forks_wait_for(_working, ForkOrder.WORK)


def _is_working_thread() -> bool:
    return _worker == threading.get_ident()


@contextmanager
def background_work() -> Iterator[None]:
    """While this context is open no other thread forks; only one thread at a time can be in it.

    A fork waits for the current work and goes before the next. The work itself may fork.
    """
    global _worker
    if _is_working_thread():
        yield
        return
    with _next:  # a waiting fork holds it
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
        if order <= ForkOrder.WORK and _is_working_thread():
            continue
        # Looked up here: LLVM's lock exists only after LLVM was imported.
        if (lock := _locks.get(order)) is not None:
            lock.__enter__()
            held.append(lock)


def _after_in_parent() -> None:
    # If Ctrl-C interrupted the wait, the fork took place with fewer locks.
    for lock in reversed(_forking.held):
        lock.__exit__(None, None, None)
    _forking.held = []


def _after_in_child() -> None:
    global _next, _working
    _after_in_parent()
    # If this thread is working, another thread's fork may have held `_next`.
    _next, _working = threading.Lock(), threading.Lock()
    forks_wait_for(_next, ForkOrder.NEXT_WORK)
    forks_wait_for(_working, ForkOrder.WORK)
    if _is_working_thread():
        _working.acquire()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
