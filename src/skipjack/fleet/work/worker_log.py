"""Logs of workers: a file for each worker, and an excerpt for each task in its outcome."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from skipjack.execute import listening_to_stderr
from skipjack.fleet.model import LONGEST_LOG, RunningLog
from skipjack.storage import ensure_directory

FOLDER = "logs"
FILE_BYTES = 1 << 20
FILES = 3
"""Files of each worker, including the current one."""
HEAD = 4 << 10
"""Characters kept of the beginning of a task's log, regardless of its length."""
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MOST_OWN_BYTES = 1 << 16
_MOST_PRINTED_BYTES = 1 << 14
"""Bytes kept of the output of a running program."""


class Excerpt:
    """The beginning and the end of a long text."""

    def __init__(self, longest: int = LONGEST_LOG, head: int = HEAD) -> None:
        self._most_head = head
        self._most_tail = longest - head - len(_gap(1 << 62))
        self._head = self._tail = ""
        self._left_out = 0
        self._one_at_a_time = threading.Lock()

    def add(self, text: str) -> None:
        with self._one_at_a_time:
            room = self._most_head - len(self._head)
            self._head += text[:room]
            self._tail += text[room:]
            # Cut at twice the kept length, so that not every line copies the whole text.
            if len(self._tail) > 2 * self._most_tail:
                self._cut()

    def _cut(self) -> None:
        excess = len(self._tail) - self._most_tail
        if excess > 0:
            self._tail = self._tail[excess:]
            self._left_out += excess

    @property
    def text(self) -> str:
        """The kept text, with a note of how much was left out. Safe in any thread."""
        with self._one_at_a_time:
            self._cut()
            return self._head + (_gap(self._left_out) if self._left_out else "") + self._tail


def _gap(characters: int) -> str:
    return f"\n[... {characters} characters left out ...]\n"


class _Current:
    """The running task of this process; a worker does one at a time."""

    def __init__(self, job: int, attempt: int, log: Excerpt, stderr: int | None) -> None:
        self._job, self._attempt, self._log, self._stderr = job, attempt, log, stderr
        self.output: tuple[Path, float] | None = None

    def said(self) -> RunningLog:
        output = self.output  # another thread may reset it
        whole = Excerpt()
        whole.add(self._log.text)
        whole.add(_quoted("stderr", _own_stderr(self._stderr)))
        whole.add(_tail_of(*output) if output else "")
        return RunningLog(self._job, self._attempt, whole.text)


_current: _Current | None = None


def running_log() -> RunningLog | None:
    """The log so far of the running task; None if no task is running."""
    current = _current
    return current.said() if current else None


@contextlib.contextmanager
def including_file(path: Path) -> Iterator[None]:
    """Append what is written to a file meanwhile to `running_log`."""
    current = _current
    if current:
        current.output = path, time.time()
    try:
        yield
    finally:
        if current:
            current.output = None


def _tail_of(path: Path, since: float) -> str:
    """The last whole lines of a file, if it was written to since that time."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_mtime >= since - 1.0:  # file systems round
            start = max(0, status.st_size - _MOST_PRINTED_BYTES)
            file.seek(start)
            data = file.read(_MOST_PRINTED_BYTES)
            first = data.find(b"\n") + 1 if start else 0
            return data[first : data.rfind(b"\n") + 1].decode(errors="replace")
    return ""


@contextlib.contextmanager
def captured_log(
    longest: int = LONGEST_LOG, *, job: int = 0, attempt: int = 0
) -> Iterator[Excerpt]:
    """Collect log messages, and what this process and its workers write to stderr.

    The text of stderr follows the log messages, unless its worker ended earlier. Meanwhile
    `running_log` returns the log with the task's job and attempt.
    """
    global _current
    log = Excerpt(longest)
    before = _own_stderr_bytes()
    _current = _Current(job, attempt, log, before)
    try:
        with _listening(_Capture(log)), listening_to_stderr(lambda *said: log.add(_quoted(*said))):
            yield log
    finally:
        _current = None
        log.add(_quoted("stderr", _own_stderr(before)))


@contextlib.contextmanager
def _listening(handler: logging.Handler) -> Iterator[None]:
    """Give a handler all messages from `INFO` on; other handlers get what they got before."""
    root = logging.getLogger()
    level = root.level
    others = [(other, other.level) for other in root.handlers]
    for other, least in others:
        other.setLevel(max(least, level))
    root.setLevel(min(level, logging.INFO))
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        for other, least in others:
            other.setLevel(least)


class _Capture(logging.Handler):
    def __init__(self, log: Excerpt) -> None:
        super().__init__()
        self._log = log
        self.setFormatter(logging.Formatter(_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.add(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


def _quoted(who: str, text: str) -> str:
    return "".join(f"{who}: {line}\n" for line in text.splitlines())


def _own_stderr_bytes() -> int | None:
    """The size of our stderr if it is a file, as for workers."""
    with contextlib.suppress(OSError):
        status = os.fstat(2)
        if stat.S_ISREG(status.st_mode):
            return status.st_size
    return None


def _own_stderr(start: int | None) -> str:
    end = _own_stderr_bytes()
    if start is None or end is None or end <= start:
        return ""
    start = max(start, end - _MOST_OWN_BYTES)
    with contextlib.suppress(OSError):  # a file that was opened for writing only
        return os.pread(2, end - start, start).decode(errors="replace")
    return ""


def log_path(user_dir: Path, slot: str) -> Path:
    """The log file of the worker of a slot."""
    return user_dir / FOLDER / (re.sub(r"[^A-Za-z0-9_.-]", "_", slot) + ".log")


def open_worker_log(user_dir: Path, slot: str, level: str = "info") -> Path:
    """Write the log of this worker process to the file of its slot."""
    path = log_path(user_dir, slot)
    ensure_directory(path.parent)
    handler = _RotatingFile(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8")
    handler.setFormatter(logging.Formatter(f"%(process)d {_FORMAT}"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return path


class _RotatingFile(logging.handlers.RotatingFileHandler):
    """Rotates safely while another process writes to the same file."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Whether a new file is due; a file that the other process began is reopened."""
        if self.stream is not None and self._moved(self.stream.fileno()):
            self.stream.close()
            self.stream = self._open()
        return bool(super().shouldRollover(record))

    def _moved(self, descriptor: int) -> bool:
        try:
            return not os.path.samestat(os.fstat(descriptor), Path(self.baseFilename).stat())
        except OSError:
            return True

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk must not fill stderr too."""
