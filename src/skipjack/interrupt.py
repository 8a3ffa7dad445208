"""Ctrl-C at a safe point: the first asks the loop to finish, the second stops at once."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

log = logging.getLogger(__name__)


class Interrupt:
    """Whether somebody pressed Ctrl-C."""

    def __init__(self) -> None:
        self.requested = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        log.warning("interrupted: finishing with what is known; Ctrl-C again stops at once")


@contextlib.contextmanager
def watch_for_interrupt() -> Iterator[Interrupt]:
    """Hold Ctrl-C back while inside.

    An exception in the middle of a worker's answer would leave half of it in the pipe. Python lets
    the main thread alone handle signals; in others Ctrl-C does not arrive anyway.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt._handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
