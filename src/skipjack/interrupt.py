"""Ctrl-C at a safe point: the first asks the loop to finish, the second stops at once."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended something early, which is raised when all that is known has been written."""

    def __init__(self, result: Any) -> None:
        super().__init__("interrupted; what was measured is kept")
        self.result = result
        """As far as it came."""


class Interrupt:
    """Whether somebody pressed Ctrl-C."""

    def __init__(self, doing: str = "finishing with what is known") -> None:
        self.requested = False
        self._doing = doing

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Slurm's SIGTERM comes twice, from Slurm and from the script; that is not impatience.
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.requested:
            return
        self.requested = True
        log.warning("interrupted: %s; Ctrl-C again stops at once", self._doing)


@contextlib.contextmanager
def watch_for_interrupt(
    doing: str = "finishing with what is known", *, terminate: bool = False
) -> Iterator[Interrupt]:
    """Hold Ctrl-C back while inside; and SIGTERM, which batch systems send before they kill.

    `doing` tells who pressed it what happens now.

    An exception in the middle of a worker's answer would leave half of it in the pipe. Python lets
    the main thread alone handle signals; in others Ctrl-C does not arrive anyway.
    """
    interrupt = Interrupt(doing)
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    numbers = (signal.SIGINT, signal.SIGTERM) if terminate else (signal.SIGINT,)
    before = [(number, signal.signal(number, interrupt._handle)) for number in numbers]
    try:
        yield interrupt
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextlib.contextmanager
def ends_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP are Ctrl-C while inside, so that what was begun is ended with us.

    Only where they would end this process at once: who ignores or handles them, keeps to that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
