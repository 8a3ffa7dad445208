"""Ctrl-C at safe points: the first one asks a loop to finish, the second one stops at once."""

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
    """Ctrl-C ended work early; raised after all results so far have been written."""

    def __init__(self, result: Any) -> None:
        super().__init__("interrupted; what was measured is kept")
        self.result = result
        """The result so far."""


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self, doing: str = "finishing with what is known") -> None:
        self.requested = False
        self._doing = doing

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Slurm's SIGTERM arrives twice, from Slurm and from the script; only Ctrl-C counts twice.
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.requested:
            return
        self.requested = True
        log.warning("interrupted: %s; Ctrl-C again stops at once", self._doing)


@contextlib.contextmanager
def deferred_interrupt(
    doing: str = "finishing with what is known", *, terminate: bool = False
) -> Iterator[Interrupt]:
    """Defer Ctrl-C within this context, and with `terminate` SIGTERM, which batch systems send.

    `doing` is printed to tell the user what happens now.

    An exception in the middle of a worker's answer would leave half of it in the pipe. Python
    handles signals only in the main thread, so this has no effect in others.
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
def signals_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that child processes end with this one.

    This changes only signals with the default action; ignored and handled ones stay as they are.
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
