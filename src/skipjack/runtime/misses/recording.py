"""What a process keeps of the problems it missed: in memory, and from time to time in the file.

A problem is written down at once when it is first missed. Calls of the kernel that answers instead
are counted, one in 64 is timed, and the sums are written every few seconds and when the program
ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.errors import SkipjackError
from skipjack.runtime.misses.file import MissedProblem, MissFile
from skipjack.runtime.misses.sending import FleetSender
from skipjack.runtime.online import CallSampler, sampled
from skipjack.runtime.warning_once import warn_once

if TYPE_CHECKING:
    from skipjack.runtime.answers import LookupAnswer, Question

log = logging.getLogger(__name__)

_FLUSH_S = 5.0
"""The file is written to this often at most, but for problems that are new."""
_AFTER_FAILURE_S = 60.0
"""Where it cannot be written to, that is tried again so late."""


class MissMeter(CallSampler):
    """The calls of one missed problem in this process."""

    def __init__(self, missed: MissedProblem, log_of: MissLog) -> None:
        super().__init__()
        # The first call is timed: a program that makes few is told from one that makes none.
        self._calls = self._written_calls = -1
        self._timed = self._timed_ns = 0
        self._missed, self._log = missed, log_of
        self.lookups = 0

    def took(self, time_ns: int) -> None:
        """What a call took that was timed."""
        self._timed += 1
        self._timed_ns += time_ns
        self._log.flush_if_due()

    def unwritten(self) -> MissedProblem | None:
        """What came since it was last asked for; None if nothing did."""
        calls, lookups = self._calls - self._written_calls, self.lookups
        if not (calls or lookups):
            return None
        self._written_calls += calls
        self.lookups -= lookups
        mean_ns = self._timed_ns / self._timed if self._timed else 0.0
        return replace(self._missed, lookups=lookups, calls=calls, time_ns=int(mean_ns * calls))


class MissLog:
    """Of one user directory and process. Nothing it does raises."""

    def __init__(self, user_dir: Path) -> None:
        self._file = MissFile(user_dir)
        self._sender = FleetSender(user_dir)
        self._meters: dict[tuple[str, str], MissMeter] = {}
        self._unwritten: list[MissedProblem] = []
        """What could not be written."""
        self._lock = threading.Lock()
        self._due = time.monotonic() + _FLUSH_S

    def note(self, question: Question, answer: LookupAnswer | None, to_fleet: bool) -> None:
        """Count a lookup, and the calls of the kernel that it gave."""
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
        """Write what came, if it is time to."""
        if time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what came since the last time."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            self._due = time.monotonic() + _FLUSH_S
            new = [one for meter in self._meters.values() if (one := meter.unwritten())]
            self._unwritten = _summed([*self._unwritten, *new])
            if self._unwritten:
                self._file.add(self._unwritten)
                self._unwritten = []
        except (SkipjackError, OSError) as error:
            self._due = time.monotonic() + _AFTER_FAILURE_S
            warn_once(log, f"missed problems are not written down: {error}", about="misses")
        finally:
            self._lock.release()


def _summed(lines: list[MissedProblem]) -> list[MissedProblem]:
    sums: dict[tuple[str, str], MissedProblem] = {}
    for one in lines:
        sums[one.key] = sums[one.key] + one if one.key in sums else one
    return list(sums.values())


_logs: dict[Path, MissLog] = {}


def record(question: Question, answer: LookupAnswer | None, *, to_fleet: bool) -> None:
    """Take note of a miss, and have the fleet tune it if that is wanted."""
    try:
        _log_of(question.settings.user_dir).note(question, answer, to_fleet)
    except Exception as error:  # whatever it is, the program has an answer
        said = f"{type(error).__name__}: {error}"
        warn_once(log, f"a missed problem is not written down: {said}", about="misses")


def flush() -> None:
    """Write down what this process has counted until now."""
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
