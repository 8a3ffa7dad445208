"""A worker process: started, asked, watched, ended. It dies with its parent and leaves nothing."""

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

from skipjack.children import worker_environment
from skipjack.errors import WorkerError
from skipjack.execute import wire
from skipjack.execute.enclosure import MODULE, Enclosure, command_of, variables_for

log = logging.getLogger(__name__)

START_TIMEOUT_S = 60.0
"""A worker that has not said that it is ready by then never will."""
_LOOK_EVERY_S = 0.25
_STDERR_TAIL = 600
_KILLED_WITHIN_S = 5.0
_MOST_OVERHEARD = 1 << 16
_PIPE = 1 << 16
"""Bytes that a pipe holds."""
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
        """Somebody ended it (memory ran out, an administrator): no kernel dies by these signals."""
        return self.return_code is not None and -self.return_code in _FROM_OUTSIDE


class WorkerHungError(WorkerError):
    """No answer within the time allowed; the process was killed."""


class ChildProcess(Protocol):
    """What is needed of `subprocess.Popen`."""

    pid: int
    returncode: int | Any
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        ...

    def wait(self, timeout: float) -> int:
        """The exit code as soon as there is one, or `subprocess.TimeoutExpired`."""
        ...


class WorkerProcess:
    """One child that answers requests in order. Not for use from several threads.

    An exchange that does not complete (the child died or hung, Ctrl-C came) leaves the child dead:
    the next answer could belong to the request before.
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
        enclosure: Enclosure | None = None,
    ) -> None:
        """`share` lists descriptors that the child inherits, `settings` variables it is given.

        One in an enclosure inherits no descriptors.
        """
        # A worker's words go to a file that has no name: nothing is left whoever dies.
        words = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        given = {**variables_for(role, cores), **(settings or {})}
        process = subprocess.Popen(
            command_of(module, role, arguments, cores, given, enclosure),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**worker_environment(), **given},
            pass_fds=tuple(share),
            bufsize=0,
            # Ctrl-C is for the parent, which decides what its workers still do.
            start_new_session=True,
        )
        self._adopt(role, process, words, enclosure)

    def _adopt(
        self,
        role: str,
        process: ChildProcess,
        words: BinaryIO,
        enclosure: Enclosure | None = None,
    ) -> None:
        """Talk to a child that was started, whose error output goes to `words`."""
        self.role = role
        self._process, self._stderr, self._enclosure = process, words, enclosure
        assert process.stdin and process.stdout  # both are pipes
        self._in, self._out = process.stdin, process.stdout
        # A stopped worker reads nothing: a write must not wait for it without limit.
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
        """Readable when an answer (or the end) is there; for `select`."""
        return self._out.fileno()

    @property
    def requests(self) -> IO[bytes]:
        """Writable when the child takes more of what was posted; for `select`."""
        return self._in

    def send(
        self, body: Mapping[str, Any], blobs: Sequence[bytes] = (), timeout_s: float = 60.0
    ) -> None:
        """Send a request without waiting for its answer.

        A child that is gone raises `WorkerDiedError`; what it had answered can still be received.
        """
        self.post(body, blobs)
        deadline = time.monotonic() + timeout_s
        try:
            while self.pump():
                if not self._writable(deadline - time.monotonic()):
                    raise WorkerHungError(f"took no request within {timeout_s:g} s")
        except WorkerDiedError:
            raise
        except BaseException:
            self.kill()
            raise

    def post(self, body: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Queue a request; `pump` sends it."""
        self._unsent += wire.encode(dict(body), blobs)

    def pump(self) -> bool:
        """Send as much of what was posted as the child takes now; whether something is left.

        A child that is gone raises `WorkerDiedError`; what it had answered can still be collected.
        """
        try:
            while self._unsent:
                del self._unsent[: os.write(self._in.fileno(), self._unsent[:_PIPE])]
        except BlockingIOError:
            return True
        except (BrokenPipeError, ValueError):  # ValueError: it was killed before
            raise WorkerDiedError("takes no requests any more") from None
        return False

    @property
    def unsent(self) -> int:
        """Bytes of what was posted that the child has not yet taken."""
        return len(self._unsent)

    def collect(self) -> list[wire.Message]:
        """The answers that are complete, once `select` said that there is something to read.

        For who serves several children and cannot wait for one; not to be mixed with `receive`.
        """
        try:
            data = os.read(self._out.fileno(), _PIPE)
            messages = self._decoder.feed(data)
        except ValueError:
            data, messages = b"", []  # it was killed before, or what came is no frame
        if not data:
            raise self.ended()
        return messages

    def receive(
        self, timeout_s: float, progress: Callable[[], object] = lambda: None
    ) -> wire.Message:
        """The next answer. `progress` is looked at now and then: a new value renews the time."""
        watch = _Watch(timeout_s, progress)

        def read(most: int) -> bytes:
            while not select.select([self._out], [], [], watch.pause())[0]:
                if watch.over():
                    raise WorkerHungError(f"no answer within {timeout_s:g} s")
            return os.read(self._out.fileno(), most)

        try:
            message = wire.receive(read)
        except ValueError:
            message = None  # it was killed before, or what came is no frame
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
        """Send and wait."""
        with contextlib.suppress(WorkerDiedError):  # `receive` says how it died
            self.send(body, blobs, timeout_s)
        return self.receive(timeout_s, progress)

    def _writable(self, timeout_s: float) -> bool:
        return bool(select.select([], [self._in], [], max(0.0, timeout_s))[1])

    def ended(self) -> WorkerDiedError:
        """Wait for a process that is on its way out and say how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        words = self.last_words()
        self.kill()
        code = self._process.returncode
        return WorkerDiedError(describe_exit(code, words), code, words)

    def last_words(self) -> str:
        """The last line of the error output of a process that has ended."""
        with contextlib.suppress(OSError, ValueError):
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            if self._enclosure:
                return self._enclosure.words(lines)
            return lines[-1] if lines else ""
        return ""

    def kill(self) -> None:
        """End it now, and whatever it started."""
        if self._process.returncode is None:
            # Not reaped yet, so the number still belongs to this group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # One that waits in the kernel, for a disk or a driver, dies when that lets it go.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_WITHIN_S)
        if self._enclosure and not self._stderr.closed:  # once
            self._enclosure.end()
        self._pass_on(_HEARERS)
        _LIVE.discard(self)
        for stream in (self._in, self._out, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _pass_on(self, hearers: Sequence[Hear]) -> None:
        """Tell them what the child wrote to its error output since the last time."""
        with contextlib.suppress(OSError, ValueError):
            descriptor = self._stderr.fileno()
            size = os.fstat(descriptor).st_size
            if size > self._passed_on and hearers:
                start = max(self._passed_on, size - _MOST_OVERHEARD)
                # Not by seeking: the child writes at the same position of the same open file.
                text = os.pread(descriptor, size - start, start).decode(errors="replace")
                for hear in hearers:
                    hear(f"{self.role} worker", text)
            self._passed_on = size

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None


class _Watch:
    """A time limit that starts anew whenever there is progress."""

    def __init__(self, timeout_s: float, progress: Callable[[], object]) -> None:
        self._timeout_s, self._progress = timeout_s, progress
        self._seen = progress()
        self._deadline = time.monotonic() + timeout_s

    def pause(self) -> float:
        """How long to wait before the next look."""
        return min(_LOOK_EVERY_S, max(0.0, self._deadline - time.monotonic()))

    def over(self) -> bool:
        """Whether the time is up, which a new value of `progress` renews."""
        seen = self._progress()
        if seen != self._seen:
            self._seen = seen
            self._deadline = time.monotonic() + self._timeout_s
        return time.monotonic() >= self._deadline


Hear = Callable[[str, str], None]
"""Takes who wrote something, and what."""
_LIVE: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
_HEARERS: list[Hear] = []


def descriptors_of_workers() -> list[int]:
    """The pipes to all workers that this process has; a copy of it must not hold them open."""
    with contextlib.suppress(ValueError):
        return [one.fileno() for worker in list(_LIVE) for one in (worker._in, worker._out)]
    return []


@contextlib.contextmanager
def overhearing(hear: Hear) -> Iterator[None]:
    """Pass on what this process's workers write to their error output meanwhile.

    It is told when a worker ends and at the end of the block, not while it is written.
    """
    for worker in list(_LIVE):
        worker._pass_on(())
    _HEARERS.append(hear)
    try:
        yield
    finally:
        _HEARERS.remove(hear)
        for worker in list(_LIVE):
            worker._pass_on([hear])


def describe_exit(code: int | None, words: str) -> str:
    """``ended by SIGSEGV`` or ``ended with exit code 3: last line of its error output``."""
    if code is not None and code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    return f"ended with exit code {code}" + (f": {words}" if words else "")
