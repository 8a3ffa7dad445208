"""A worker that is a fork of this process, for calls that cannot be sent to another process."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, Any, BinaryIO

from skipjack.execute.process import WorkerProcess, descriptors_of_workers
from skipjack.execute.startup import die_with

Serve = Callable[[BinaryIO, BinaryIO], None]
"""Reads requests and writes answers until the pipe closes."""
_LOOK_EVERY_S = 0.002


class ForkedWorker(WorkerProcess):
    """Runs a function of this process in a forked child, whatever the function closes over.

    Nothing has to be importable or picklable. The function must not use a GPU, whose context does
    not survive a fork.
    """

    def __init__(self, role: str, serve: Serve) -> None:
        words = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._adopt(role, _Fork(serve, words), words)


class _Fork:
    """A forked process, as `WorkerProcess` uses a `subprocess.Popen`."""

    def __init__(self, serve: Serve, words: BinaryIO) -> None:
        self.returncode: int | Any = None
        read_request, write_request = os.pipe()
        read_answer, write_answer = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns of locks that other threads hold. The compiler takes none of them, and a
            # child that hangs nevertheless is ended by its timeout.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self.pid = os.fork()
            except OSError:
                for descriptor in (read_request, write_request, read_answer, write_answer):
                    os.close(descriptor)
                raise
        if self.pid == 0:
            try:
                # Only the parent may have the ends of other workers' pipes.
                for descriptor in (write_request, read_answer, *descriptors_of_workers()):
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
                _set_up_child(parent, words.fileno())
                serve(os.fdopen(read_request, "rb"), os.fdopen(write_answer, "wb"))
            finally:
                os._exit(0)  # without the cleanup of the parent's objects
        os.close(read_request)
        os.close(write_answer)
        self.stdin: IO[bytes] | None = os.fdopen(write_request, "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(read_answer, "rb", buffering=0)
        # The child does this, too: `kill` ends the group, which must exist by then.
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            pid, state = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(state)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The exit code; raises `subprocess.TimeoutExpired` if the child does not end in time."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("a forked worker", timeout)
            time.sleep(_LOOK_EVERY_S)
        return code


def _set_up_child(parent: int, words: int) -> None:
    """Set up the child. It keeps the parent's limits, since the parent's memory counts as its."""
    gc.disable()  # it must not free the parent's device memory
    # Use a new group, so that `kill` reaches what a compiler starts, and Ctrl-C does not.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(words, 1)
    os.dup2(words, 2)
    threading.excepthook = lambda _: None
    die_with(parent)
