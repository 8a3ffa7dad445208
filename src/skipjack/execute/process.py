"""A worker process: it is started, asked, watched and ended, and dies with its parent."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, BinaryIO, Protocol

from skipjack.errors import WorkerError
from skipjack.execute import wire
from skipjack.execute.startup import MODULE, ContainerRunner, command_of, variables_for
from skipjack.processes import worker_environment

log = logging.getLogger(__name__)

START_TIMEOUT_S = 60.0
"""A worker that has not reported that it is ready by then never will."""
_LOOK_EVERY_S = 0.25
_STDERR_TAIL = 600
_KILLED_WITHIN_S = 5.0
_MOST_HEARD = 1 << 16
_PIPE = 1 << 16
"""The capacity of a pipe in bytes."""
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class WorkerDiedError(WorkerError):
    """The process ended; the message says how."""

    def __init__(self, message: str, return_code: int | None = None, words: str = "") -> None:
        super().__init__(message)
        self.return_code = return_code
        self.words = words
        """The last line of its error output."""

    @property
    def from_outside(self) -> bool:
        """Whether it was killed from outside: kernels do not die by these signals."""
        return self.return_code is not None and -self.return_code in _FROM_OUTSIDE


class WorkerHungError(WorkerError):
    """No answer within the time allowed; the process was killed."""


class ChildProcess(Protocol):
    """The part of `subprocess.Popen` that is needed."""

    pid: int
    returncode: int | Any
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        ...

    def wait(self, timeout: float) -> int:
        """The exit code; raises `subprocess.TimeoutExpired` if the process does not end in time."""
        ...


class WorkerProcess:
    """One child process that answers requests in order. Use it from one thread.

    If a request is not answered (the child died or hung, Ctrl-C was pressed), the child is killed:
    the next answer could belong to the previous request.
    """

    def __init__(
        self,
        role: str,
        arguments: Sequence[str] = (),
        cores: Sequence[int] = (),
        share: Sequence[int] = (),
        *,
        module: str = MODULE,
        settings: Mapping[str, str] | None = None,
        container: ContainerRunner | None = None,
    ) -> None:
        """`share` are descriptors that the child inherits, `settings` environment variables.

        A worker in a container inherits no descriptors.
        """
        # The error output goes to a file without a name, so that nothing is left behind.
        words = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        given = {**variables_for(role, cores), **(settings or {})}
        process = subprocess.Popen(
            command_of(module, role, arguments, cores, given, container),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**worker_environment(), **given},
            pass_fds=tuple(share),
            bufsize=0,
            # Ctrl-C goes to the parent, which decides what happens to its workers.
            start_new_session=True,
        )
        self._adopt(role, process, words, container)

    def _adopt(
        self,
        role: str,
        process: ChildProcess,
        words: BinaryIO,
        container: ContainerRunner | None = None,
    ) -> None:
        """Use a child that was started, whose error output goes to the file `words`."""
        self.role = role
        self._process, self._stderr, self._container = process, words, container
        assert process.stdin and process.stdout  # both are pipes
        self._in, self._out = process.stdin, process.stdout
        # A stopped worker reads nothing: a write must not block forever.
        os.set_blocking(self._in.fileno(), False)
        self._unsent = bytearray()
        self._decoder = wire.Decoder()
        self._passed_on = 0
        _LIVE.add(self)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor that is readable when an answer or the end of the child is there."""
        return self._out.fileno()

    @property
    def requests(self) -> IO[bytes]:
        """The pipe that is writable when the child takes more of what was posted."""
        return self._in

    def send(
        self, body: Mapping[str, Any], blobs: Sequence[bytes] = (), timeout_s: float = 60.0
    ) -> None:
        """Send a request without waiting for its answer.

        Raises `WorkerDiedError` if the child has died; its earlier answers can still be received.
        """
        self.post(body, blobs)
        deadline = time.monotonic() + timeout_s
        try:
            while self.pump():
                if not self._writable(deadline - time.monotonic()):
                    raise WorkerHungError(f"accepted no request within {timeout_s:g} s")
        except WorkerDiedError:
            raise
        except BaseException:
            self.kill()
            raise

    def post(self, body: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Queue a request; `pump` sends it."""
        self._unsent += wire.encode(dict(body), blobs)

    def pump(self) -> bool:
        """Send as much of what was posted as the child takes now; returns whether more is left.

        Raises `WorkerDiedError` if the child has died; its earlier answers can still be collected.
        """
        try:
            while self._unsent:
                del self._unsent[: os.write(self._in.fileno(), self._unsent[:_PIPE])]
        except BlockingIOError:
            return True
        except (BrokenPipeError, ValueError):  # ValueError: it was killed before
            raise WorkerDiedError("accepts no more requests") from None
        return False

    @property
    def unsent(self) -> int:
        """Bytes that were posted and not yet sent."""
        return len(self._unsent)

    def collect(self) -> list[wire.Message]:
        """The complete answers, once `select` has reported that there is something to read.

        For callers that serve several children and cannot wait for one; do not mix with `receive`.
        """
        try:
            data = os.read(self._out.fileno(), _PIPE)
            messages = self._decoder.feed(data)
        except ValueError:
            data, messages = b"", []  # it was killed before, or sent an invalid frame
        if not data:
            raise self.ended()
        return messages

    def receive(
        self, timeout_s: float, progress: Callable[[], object] = lambda: None
    ) -> wire.Message:
        """The next answer. `progress` is polled: a new value restarts the timeout."""
        deadline = _Deadline(timeout_s, progress)

        def read(most: int) -> bytes:
            while not select.select([self._out], [], [], deadline.pause())[0]:
                if deadline.over():
                    raise WorkerHungError(f"no answer within {timeout_s:g} s")
            return os.read(self._out.fileno(), most)

        try:
            message = wire.receive(read)
        except ValueError:
            message = None  # it was killed before, or sent an invalid frame
        except BaseException:
            self.kill()
            raise
        if message is None:
            raise self.ended()
        return message

    def request(
        self,
        body: Mapping[str, Any],
        blobs: Sequence[bytes] = (),
        timeout_s: float = 60.0,
        progress: Callable[[], object] = lambda: None,
    ) -> wire.Message:
        """Send a request and wait for its answer."""
        with contextlib.suppress(WorkerDiedError):  # `receive` raises the cause
            self.send(body, blobs, timeout_s)
        return self.receive(timeout_s, progress)

    def _writable(self, timeout_s: float) -> bool:
        return bool(select.select([], [self._in], [], max(0.0, timeout_s))[1])

    def ended(self) -> WorkerDiedError:
        """Wait for a process that is about to end; returns an error that says how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        words = self.last_stderr_line()
        self.kill()
        code = self._process.returncode
        return WorkerDiedError(describe_exit(code, words), code, words)

    def last_stderr_line(self) -> str:
        """The last line of the error output of a process that has ended."""
        with contextlib.suppress(OSError, ValueError):
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            if self._container:
                return self._container.words(lines)
            return lines[-1] if lines else ""
        return ""

    def kill(self) -> None:
        """End the process now, with all that it has started."""
        if self._process.returncode is None:
            # Not reaped yet, so the id still belongs to this group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # A process that waits in the kernel, for a disk or a driver, dies after the wait.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_WITHIN_S)
        if self._container and not self._stderr.closed:  # once
            self._container.end()
        self._pass_on(_LISTENERS)
        _LIVE.discard(self)
        for stream in (self._in, self._out, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _pass_on(self, listeners: Sequence[StderrListener]) -> None:
        """Pass the child's new error output on to the listeners."""
        with contextlib.suppress(OSError, ValueError):
            descriptor = self._stderr.fileno()
            size = os.fstat(descriptor).st_size
            if size > self._passed_on and listeners:
                start = max(self._passed_on, size - _MOST_HEARD)
                # Do not seek: the child shares the position of the open file.
                text = os.pread(descriptor, size - start, start).decode(errors="replace")
                for listener in listeners:
                    listener(f"{self.role} worker", text)
            self._passed_on = size

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None


class _Deadline:
    """A time limit that restarts whenever there is progress."""

    def __init__(self, timeout_s: float, progress: Callable[[], object]) -> None:
        self._timeout_s, self._progress = timeout_s, progress
        self._seen = progress()
        self._deadline = time.monotonic() + timeout_s

    def pause(self) -> float:
        """How long to wait before the next check."""
        return min(_LOOK_EVERY_S, max(0.0, self._deadline - time.monotonic()))

    def over(self) -> bool:
        """Whether the time is over; a new value of `progress` restarts it."""
        seen = self._progress()
        if seen != self._seen:
            self._seen = seen
            self._deadline = time.monotonic() + self._timeout_s
        return time.monotonic() >= self._deadline


StderrListener = Callable[[str, str], None]
"""Called with the name of a worker and the text that it wrote."""
_LIVE: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
_LISTENERS: list[StderrListener] = []


def descriptors_of_workers() -> list[int]:
    """The pipes to all workers of this process, which a forked child must close."""
    with contextlib.suppress(ValueError):
        return [one.fileno() for worker in list(_LIVE) for one in (worker._in, worker._out)]
    return []


@contextlib.contextmanager
def listening_to_stderr(listener: StderrListener) -> Iterator[None]:
    """Within the block, pass the error output of this process's workers on to a listener.

    It is called when a worker ends and at the end of the block, not while the output is written.
    """
    for worker in list(_LIVE):
        worker._pass_on(())
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
        for worker in list(_LIVE):
            worker._pass_on([listener])


def describe_exit(code: int | None, words: str) -> str:
    """``ended by SIGSEGV`` or ``ended with exit code 3: last line of its error output``."""
    if code is not None and code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    return f"ended with exit code {code}" + (f": {words}" if words else "")
