"""Kernels that are built and verified in the background, one at a time, in a thread.

A lookup waits for a moment. If that is not enough, another kernel answers, and lookups use the
result from then on. The thread ends when there is nothing left to do, or a few seconds after the
program. A fork waits for the kernel that is being checked, not for queued ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread, main_thread
from time import monotonic
from typing import Any, Generic, TypeVar

from skipjack.errors import SkipjackError
from skipjack.native import background_work

T = TypeVar("T")

_MOST_KEPT = 256
"""Outcomes that are remembered: of checks that failed, or whose results could not be stored."""
_AFTER_END_S = 5.0
"""When the program ends, queued checks are still started for this long: results are stored, so a
short program that looks up many kernels need not run once for each."""


class KernelCheck(Generic[T]):
    """Building and verifying a kernel, or several of which the fastest is chosen."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._outcome: T | None = None
        self._error: SkipjackError | None = None
        self.finished = Event()

    def run(self) -> None:
        """Do the work, in any thread."""
        try:
            self._outcome = self._work()
        except SkipjackError as error:
            self._error = error
        except Exception as error:  # a solver may raise anything
            self._error = SkipjackError(f"{type(error).__name__}: {error}")
        finally:
            self.finished.set()

    def abandon(self) -> None:
        """Give up, in a forked process, whose thread is gone: waiting lookups ask again."""
        self._error = SkipjackError("its check runs in the process that this one was forked from")
        self.finished = Event()  # another thread may have held the lock of the old one
        self.finished.set()

    def outcome(self) -> T:
        """The result of a finished check; raises what is wrong with the kernel."""
        if self._error is not None:
            raise self._error
        assert self._outcome is not None, "it is finished"
        return self._outcome


class StillCheckingError(SkipjackError):
    """A kernel is not verified yet."""

    def __init__(self, check: KernelCheck[Any]) -> None:
        super().__init__("its kernel is being built and verified in the background")
        self.check = check


_lock = Lock()
_checks: dict[str, KernelCheck[Any]] = {}
"""Checks by the key of the kernel or of the guesses, the oldest first."""
_waiting: deque[KernelCheck[Any]] = deque()
_working = False


def check_in_background(key: str, work: Callable[[], T], patience_s: float) -> T:
    """The result or error of `work` if it is done within `patience_s`; else `StillCheckingError`.

    The work of a key is done once. If another kernel is being checked, the call does not wait.
    """
    with _lock:
        check = _checks.get(key)
        idle = not _working
        if check is None:
            check = _checks[key] = KernelCheck(work)
            _waiting.append(check)
            _start()
            for old in list(_checks)[:-_MOST_KEPT]:
                if _checks[old].finished.is_set():
                    del _checks[old]
    if not check.finished.wait(patience_s if idle else 0.0):
        raise StillCheckingError(check)
    outcome: T = check.outcome()
    return outcome


def forget_checks() -> None:
    """Forget finished checks: their kernels are checked again."""
    with _lock:
        for key in [key for key, check in _checks.items() if check.finished.is_set()]:
            del _checks[key]


def _start() -> None:
    global _working
    if not _working:
        _working = True
        # Not a daemon: compiling while the interpreter shuts down crashes it.
        Thread(target=_work, name="skipjack-checks").start()


def _work() -> None:
    global _working
    last_start: float | None = None
    while True:
        if last_start is None and not main_thread().is_alive():
            last_start = monotonic() + _AFTER_END_S
        with _lock:
            if not _waiting or (last_start is not None and monotonic() >= last_start):
                _working = False
                return
            check = _waiting.popleft()
        with background_work():  # it imports and compiles
            check.run()


def _after_fork() -> None:
    """A forked process has no thread: unfinished checks would never finish."""
    global _lock, _working
    _lock, _working = Lock(), False
    _waiting.clear()
    for check in _checks.values():
        if not check.finished.is_set():
            check.abandon()
    _checks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
