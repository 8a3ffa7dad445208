"""A worker process: started, asked, watched, ended. It dies with its parent and leaves nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast

from skipjack.errors import WorkerError
from skipjack.execute import wire

log = logging.getLogger(__name__)

_STDERR_TAIL = 600


class WorkerDiedError(WorkerError):
    """The process ended; `description` says how."""


class WorkerHungError(WorkerError):
    """No answer within the time allowed; the process was killed."""


class WorkerProcess:
    """One child that answers requests in order. Not for use from several threads."""

    def __init__(self, role: str, arguments: Sequence[str] = (), core: int | None = None) -> None:
        self.role = role
        # A worker's words go to a file that has no name: nothing is left whoever dies.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "skipjack.execute.worker", role, str(os.getpid())]
        if core is not None:
            command += ["--core", str(core)]
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            # Ctrl-C is for the parent, which decides what its workers still do.
            start_new_session=True,
        )
        self._in = cast(BinaryIO, self._process.stdin)
        self._out = cast(BinaryIO, self._process.stdout)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when an answer (or the end) is there; for `select`."""
        return self._out.fileno()

    def send(self, body: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Send a request without waiting for its answer."""
        try:
            wire.send(self._in, dict(body), blobs)
        except (BrokenPipeError, ValueError):
            raise WorkerDiedError(self._end()) from None

    def receive(self, timeout_s: float) -> wire.Message:
        """The next answer; kills the worker if it takes longer than this."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._out], [], [], max(0.0, left))
            if ready:
                break
            if left <= 0:
                self.kill()
                raise WorkerHungError(f"no answer within {timeout_s:g} s")
        message = wire.receive(self._out)
        if message is None:
            raise WorkerDiedError(self._end())
        return message

    def request(
        self, body: Mapping[str, Any], blobs: Sequence[bytes] = (), timeout_s: float = 60.0
    ) -> wire.Message:
        """Send and wait."""
        self.send(body, blobs)
        return self.receive(timeout_s)

    def _end(self) -> str:
        """Wait for a process that is on its way out and say how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self.kill()
        return describe_exit(self._process.returncode, self._last_words())

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def close(self) -> None:
        """Let it end by itself, at once if it can."""
        with contextlib.suppress(OSError):
            self._in.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._release()

    def kill(self) -> None:
        """End it now."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._release()

    def _release(self) -> None:
        for stream in (self._in, self._out):
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None


def describe_exit(code: int | None, words: str) -> str:
    """``ended by SIGSEGV`` or ``ended with exit code 3: last line of its error output``."""
    if code is not None and code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    return f"ended with exit code {code}" + (f": {words}" if words else "")
