"""A small process that runs one command at a time and lets none of its processes survive.

``python -I -S FILE`` reads requests as JSON lines. It answers each with the id of the process and,
at the end, with how it ended. It adopts and ends processes that a command leaves running, even
those that left its process group; and when the requesting process is gone, however it ended, it
ends the command and itself. It imports nothing of Skipjack, so that it is small and starts fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 1 << 16
_LEAVE_S = 0.1
"""The time that processes left running by a command have to end on their own."""
_KILL_S = 5.0
"""A process that SIGKILL has not ended by then hangs in the kernel and is left."""
_AGAIN_S = 0.02
_LONGEST_PAUSE_S = 3600.0
STOP = b"stop"


def main() -> None:
    """Serve until the pipe is closed."""
    sys.excepthook = lambda *_: None  # no one reads what a supervisor prints when it fails
    _adopt_orphans()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    wake = _wake_when_children_end()
    pending = b""
    while chunk := os.read(0, 1 << 20):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line == STOP:
                continue  # it came after its command had ended
            answer = _answer(json.loads(line), wake)
            _say(answer)
            if answer.get("left"):
                return  # what could not be ended must not be taken for a part of the next command


def descendants(root: int) -> list[int]:
    """Running processes that were started by `root`, by those that it started, and so on."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc") if sys.platform == "linux" else ():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2]
            state, parent = fields.split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(entry.name))
    found, left = [], [root]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


class _Task:
    """One command from its start to the end of all its processes."""

    def __init__(self, request: dict[str, Any], wake: int) -> None:
        self._wake = wake
        self._supervisor = os.getpid()
        self._grace_s: float = request["grace_s"]
        self._output = _Output(request["output"], request["keep_bytes"])
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        self.seconds = 0.0
        self._began = time.monotonic()
        try:
            # Without a function to call in the child this is a vfork, which takes a third as long.
            self._process = subprocess.Popen(
                request["argv"],
                cwd=request["cwd"],
                env=request["env"],
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            self._output.finish()
            raise
        finally:
            os.close(theirs)
        timeout = request["timeout_s"]
        self._limit = float("inf") if timeout is None else self._began + timeout
        self.code: int | None = None
        self.peak_bytes = 0
        self.cause = ""
        self.strays = 0
        self.left = 0
        self._signals: list[signal.Signals] = []

    @property
    def pid(self) -> int:
        """The process id of the command, which is the id of its process group, too."""
        return self._process.pid

    def run(self) -> dict[str, Any]:
        """Wait for the command, and end it and its processes if need be; returns the answer."""
        reading = [self._pipe, self._wake, 0]
        while self._reap() or self.code is None:
            now = time.monotonic()
            if self._overdue(now):
                break
            ready = select.select(reading, [], [], self._pause(now))[0]
            if self._wake in ready:
                os.read(self._wake, _CHUNK)
            if self._pipe in ready and not self._read():
                reading.remove(self._pipe)
            if 0 in ready:
                reading.remove(0)
                if not self._signals:
                    self._end("stop")
        while self._pipe in reading and self._read(most=1):
            pass
        os.close(self._pipe)
        self._output.finish()
        if self.code is None:  # it hangs in the kernel
            self.code, self.seconds = -signal.SIGKILL, time.monotonic() - self._began
        return {
            "code": self.code,
            "cause": self.cause,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "strays": self.strays,
            "left": self.left,
            "output_bytes": self._output.bytes,
            "output_error": self._output.error,
        }

    def _reap(self) -> bool:
        """Reap processes that ended; returns whether others are left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._process.pid:
                now = time.monotonic()
                self.seconds = now - self._began
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                unit = 1 if sys.platform == "darwin" else 1024
                self.peak_bytes = usage.ru_maxrss * unit
                if not self._signals:
                    self._limit = now + _LEAVE_S

    def _overdue(self, now: float) -> bool:
        """Take the next step if it is time; returns whether nothing more can be done."""
        if now < self._limit:
            if self._signals[-1:] == [signal.SIGKILL]:
                self._signal(signal.SIGKILL)  # more may have been started meanwhile
            return False
        if not self._signals:
            if self.code is not None:
                self.strays = len(descendants(self._supervisor))
            self._end("timeout" if self.code is None else "")
        elif self._signals[-1] is not signal.SIGKILL:
            self._signal(signal.SIGKILL)
            self._limit = now + _KILL_S
        else:
            self.left = len(descendants(self._supervisor))
            return True
        return False

    def _end(self, cause: str) -> None:
        self.cause = cause
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process would not get it
        self._limit = time.monotonic() + self._grace_s

    def _signal(self, number: signal.Signals) -> None:
        self._signals.append(number)
        if self.code is None:  # not reaped: the number still belongs to this group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        for pid in descendants(self._supervisor):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _pause(self, now: float) -> float:
        if self._signals[-1:] == [signal.SIGKILL]:
            return _AGAIN_S
        return min(_LONGEST_PAUSE_S, max(0.0, self._limit - now))

    def _read(self, most: int = 16) -> bool:
        """Read a part of what is in the pipe; returns whether there may be more."""
        for _ in range(most):
            try:
                data = os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                return most > 1
            if not data:
                return False
            self._output.take(data)
        return True


class _Output:
    """A file with the beginning and the end of a command's output."""

    def __init__(self, path: str, keep_bytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._room = self._tail_room = keep_bytes // 2
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        self._dropped = 0
        self.bytes = 0
        self.error = ""

    def take(self, data: bytes) -> None:
        self.bytes += len(data)
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._write(head)
        if rest:
            self._tail.append(rest)
            self._in_tail += len(rest)
            while self._in_tail - len(self._tail[0]) >= self._tail_room:
                self._in_tail -= len(self._tail[0])
                self._dropped += len(self._tail.popleft())

    def finish(self) -> None:
        if self._dropped:
            self._write(f"\n[... {self._dropped} bytes are left out here ...]\n".encode())
        for data in self._tail:
            self._write(data)
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and not self.error:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.error = error.strerror or str(error)


def _answer(request: dict[str, Any], wake: int) -> dict[str, Any]:
    try:
        with _on(request["cores"]):  # children inherit the affinity
            task = _Task(request, wake)
        kills = _memory_kills()  # while the command starts, so that it costs no time
        _say({"pid": task.pid})
        answer = task.run()
        if answer["code"]:
            answer["memory_kills"] = _memory_kills() - kills
        return answer
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"failed": getattr(error, "strerror", None) or str(error)}


def _say(body: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(body).encode() + b"\n")


@contextlib.contextmanager
def _on(cores: list[int]) -> Iterator[None]:
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _wake_when_children_end() -> int:
    """A descriptor that is readable when a child has ended."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _memory_kills() -> int:
    """The number of processes that the kernel has killed because memory ran out."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
