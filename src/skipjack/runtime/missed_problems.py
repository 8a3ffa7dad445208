"""Problems that a program looked up and no bank knew: their file, counting, and sending them to the
fleet.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.errors import MalformedError, SkipjackError
from skipjack.processes import python_command
from skipjack.reading import read_json
from skipjack.runtime.online import CallSampler, sampled
from skipjack.runtime.process import warn_once
from skipjack.storage import AppendedFile, FileLock, atomic_write, ensure_directory, write_failure

if TYPE_CHECKING:
    from skipjack.runtime.answers import LookupAnswer, Question


# The file of missed problems: many processes append lines, and equal problems are summed.
#
# A line that a killed process left unfinished is skipped. When there are many more lines than
# problems, the file is rewritten with one line for each problem.

FILE_NAME = "misses.jsonl"
FORMAT = 1
_COMPACT_BYTES = 1 << 18
"""A file that is larger than this, and at least four times as large as needed, is rewritten."""
_WAIT_S = 0.5
"""How long a program waits for other processes that write."""


@dataclass(frozen=True, slots=True)
class MissedProblem:
    """A problem on a device that no bank knew; also an increment by one process."""

    problem: str
    """The full key."""
    device: str
    """For example ``znver4/1``."""
    device_class: str
    lookups: int = 0
    """Without lookups that were answered from memory."""
    calls: int = 0
    """Calls of the kernel that was used instead."""
    time_ns: int = 0
    """The time of these calls, estimated from samples."""
    sent: bool = False
    """Whether the fleet has a job for it."""

    @property
    def key(self) -> tuple[str, str]:
        """Lines with equal keys belong to one problem."""
        return self.problem, self.device_class

    @property
    def worth(self) -> tuple[int, int, int, str, str]:
        """A sort key: the most valuable first, by time, calls, lookups."""
        return -self.time_ns, -self.calls, -self.lookups, self.problem, self.device_class

    def __add__(self, other: MissedProblem) -> MissedProblem:
        return replace(
            self,
            lookups=self.lookups + other.lookups,
            calls=self.calls + other.calls,
            time_ns=self.time_ns + other.time_ns,
            sent=self.sent or other.sent,
        )

    def line(self) -> bytes:
        """Its line in the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode() + b"\n"


class MissFile:
    """The file of one user directory. Writing may raise `StorageError`; reading never does."""

    def __init__(self, user_dir: Path) -> None:
        self.path = user_dir / FILE_NAME

    def missed(self) -> list[MissedProblem]:
        """Each problem once, the most valuable first."""
        return sorted(self._sums().values(), key=lambda one: one.worth)

    def add(self, lines: Iterable[MissedProblem]) -> None:
        """Append missed problems."""
        data = b"".join(one.line() for one in lines)
        with self._lock():
            self._make()
            with AppendedFile(self.path, durable=False) as file:
                torn = file.end(1) not in (b"\n", b"")
                file.write(b"\n" * torn + data)
                size = file.size + len(data)
            if size > _COMPACT_BYTES:
                self._compact(size)

    def drop(self, known: Callable[[MissedProblem], bool]) -> int:
        """Remove problems, for example those that a bank knows now; returns their number."""
        if not self.path.exists():
            return 0
        with self._lock():
            sums = self._sums()
            left = [one for one in sums.values() if not known(one)]
            if len(left) < len(sums):
                self._write(left)
            return len(sums) - len(left)

    def _lock(self) -> FileLock:
        ensure_parent(self.path)
        return FileLock(self.path.with_suffix(".lock"), timeout_s=_WAIT_S)

    def _make(self) -> None:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise write_failure(self.path, error) from error

    def _compact(self, size: int) -> None:
        sums = self._sums().values()
        if 4 * sum(len(one.line()) for one in sums) < size:
            self._write(sums)

    def _write(self, sums: Iterable[MissedProblem]) -> None:
        lines = sorted(sums, key=lambda one: one.worth)
        atomic_write(self.path, b"".join(one.line() for one in lines), durable=False)

    def _sums(self) -> dict[tuple[str, str], MissedProblem]:
        sums: dict[tuple[str, str], MissedProblem] = {}
        with contextlib.suppress(OSError):
            for line in self.path.read_bytes().splitlines():
                if one := _read(line):
                    sums[one.key] = sums[one.key] + one if one.key in sums else one
        return sums


def ensure_parent(path: Path) -> None:
    """Create the user directory if it does not exist; `StorageError`."""
    if not path.parent.is_dir():
        ensure_directory(path.parent)


def _read(line: bytes) -> MissedProblem | None:
    """The contents of a line; None if it is incomplete or has an unknown format."""
    try:
        return read_json(line).without("format", FORMAT).of(MissedProblem)
    except MalformedError:
        return None


# Missed problems become jobs of the fleet: a separate process sends them to the store.
#
# It sends all problems in the file that the store does not have, including those that another
# program could not send. It outlives the program, and only one runs on a host at a time.

log = logging.getLogger(__name__)

MODULE = "skipjack.fleet.problem_import.miss_sender"
_GATHER_S = 0.2
"""A program that starts misses many problems at once: they are sent together."""


class FleetSender:
    """Sends the misses in one user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._user_dir = user_dir
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def send(self) -> None:
        """Have the problems in the file sent soon; returns at once."""
        self._wanted.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skipjack misses", daemon=True
                )
                self._thread.start()
                atexit.register(self._at_exit)

    def _run(self) -> None:
        pause = threading.Event()
        while self._wanted.wait():
            pause.wait(_GATHER_S)
            self._wanted.clear()
            try:
                said = self._sent()
            except (SkipjackError, OSError) as error:
                said = str(error)
            if said:
                warn_once(
                    log, f"missed problems cannot be sent to the fleet: {said}", about="sending"
                )

    def _sent(self) -> str:
        """Send what has not been sent yet; returns why that failed, or an empty string."""
        with FileLock(self._user_dir / "misses-sending.lock"):
            if all(one.sent for one in MissFile(self._user_dir).missed()):
                return ""
            child = self._start(subprocess.PIPE)
            said = child.communicate()[1].decode(errors="replace").strip()
            return said.splitlines()[-1] if said and child.returncode else ""

    def _start(self, errors: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            python_command(MODULE, str(self._user_dir)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )

    def _at_exit(self) -> None:
        if self._wanted.is_set():
            with contextlib.suppress(OSError):  # the next program sends them
                self._start(subprocess.DEVNULL)


# The problems that a process missed: counted in memory, and written from time to time.
#
# A problem is written at once when it is first missed. Calls of the kernel that is used instead are
# counted, one in 64 is timed, and the sums are written every few seconds and when the program ends.


_FLUSH_S = 5.0
"""The shortest time between two writes, except for new problems."""
_AFTER_FAILURE_S = 60.0
"""The time until the next attempt after a failed write."""


class MissMeter(CallSampler):
    """The calls of one missed problem in this process."""

    def __init__(self, missed: MissedProblem, log_of: MissLog) -> None:
        super().__init__()
        # The first call is timed, so that few calls differ from none.
        self._calls = self._written_calls = -1
        self._timed = self._timed_ns = 0
        self._missed, self._log = missed, log_of
        self.lookups = 0

    def took(self, time_ns: int) -> None:
        """Count the time of a sampled call."""
        self._timed += 1
        self._timed_ns += time_ns
        self._log.flush_if_due()

    def unwritten(self) -> MissedProblem | None:
        """The increment since the last call of this; None if there is none."""
        calls, lookups = self._calls - self._written_calls, self.lookups
        if not (calls or lookups):
            return None
        self._written_calls += calls
        self.lookups -= lookups
        mean_ns = self._timed_ns / self._timed if self._timed else 0.0
        return replace(self._missed, lookups=lookups, calls=calls, time_ns=int(mean_ns * calls))


class MissLog:
    """The misses of one process in one user directory. Its methods never raise."""

    def __init__(self, user_dir: Path) -> None:
        self._file = MissFile(user_dir)
        self._sender = FleetSender(user_dir)
        self._meters: dict[tuple[str, str], MissMeter] = {}
        self._unwritten: list[MissedProblem] = []
        """Increments that could not be written."""
        self._lock = threading.Lock()
        self._due = time.monotonic() + _FLUSH_S

    def note(self, question: Question, answer: LookupAnswer | None, to_fleet: bool) -> None:
        """Count a lookup, and the calls of the kernel that it returned."""
        problem, device = question.problem, question.device
        with self._lock:
            meter = self._meters.get((problem.key, device.class_key))
            if is_new := meter is None:
                missed = MissedProblem(problem.key, device.name, device.class_key)
                meter = self._meters[missed.key] = MissMeter(missed, self)
        meter.lookups += 1
        if answer is not None:
            sampled(answer.kernel, meter, on_gpu=device.kind != "cpu")
        if is_new:
            self.flush()
            if to_fleet:
                self._sender.send()
        else:
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Write new counts, if it is time to."""
        if time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write the counts since the last time."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is writing
        try:
            self._due = time.monotonic() + _FLUSH_S
            new = [one for meter in self._meters.values() if (one := meter.unwritten())]
            self._unwritten = _summed([*self._unwritten, *new])
            if self._unwritten:
                self._file.add(self._unwritten)
                self._unwritten = []
        except (SkipjackError, OSError) as error:
            self._due = time.monotonic() + _AFTER_FAILURE_S
            warn_once(log, f"missed problems cannot be recorded: {error}", about="misses")
        finally:
            self._lock.release()


def _summed(lines: list[MissedProblem]) -> list[MissedProblem]:
    sums: dict[tuple[str, str], MissedProblem] = {}
    for one in lines:
        sums[one.key] = sums[one.key] + one if one.key in sums else one
    return list(sums.values())


_logs: dict[Path, MissLog] = {}


def record(question: Question, answer: LookupAnswer | None, *, to_fleet: bool) -> None:
    """Record a miss, and have the fleet tune it if `to_fleet`."""
    try:
        _log_of(question.settings.user_dir).note(question, answer, to_fleet)
    except Exception as error:  # the program has an answer in any case
        said = f"{type(error).__name__}: {error}"
        warn_once(log, f"a missed problem cannot be recorded: {said}", about="misses")


def flush() -> None:
    """Write what this process has counted so far."""
    for one in list(_logs.values()):
        one.flush()


def _log_of(user_dir: Path) -> MissLog:
    found = _logs.get(user_dir)
    if found is None:
        if not _logs:
            atexit.register(flush)
        found = _logs.setdefault(user_dir, MissLog(user_dir))
    return found


os.register_at_fork(after_in_child=_logs.clear)
