"""Keeps the result file and the program's times up to date while a program runs."""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from skipjack.errors import MalformedError, SkipjackError, StorageError
from skipjack.integrations.torch.outcomes.result_file import (
    CountCalls,
    ProgramFacts,
    ProgramTime,
    ResultFile,
    TorchDecision,
    has_searched,
)
from skipjack.processes import began
from skipjack.reading import read_json
from skipjack.runtime.dumps import dump_folder
from skipjack.settings import TORCH_STARTED, TUNE_RESULT_PATH, load_settings
from skipjack.storage import atomic_write, ensure_directory

# Run times of programs under ``skipjack exec``, with and without our kernels.
#
# There is one small file for each program in the user directory. A program is identified by its
# command line and working directory.

FOLDER = "programs"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ProgramTimes:
    """The seconds of the last run of each kind; None if there was none."""

    command: tuple[str, ...]
    directory: str
    untuned_s: float | None = None
    """Without our kernels."""
    tuned_s: float | None = None
    """With our kernels, and without a search."""


class ProgramRecords:
    """The stored run times of programs."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def find(self, command: Sequence[str], directory: str) -> ProgramTimes:
        """The run times of a program; both may be None."""
        unknown = ProgramTimes(tuple(command), directory)
        try:
            field = read_json(self._path(unknown).read_bytes())
            if field["format"].integer() != FORMAT:
                return unknown
            found = field.without("format", FORMAT).of(ProgramTimes)
        except (OSError, MalformedError):
            return unknown
        return found if (found.command, found.directory) == (tuple(command), directory) else unknown

    def note(self, times: ProgramTimes, seconds: float, *, was_tuned: bool) -> None:
        """Store the time of a run, if the file can be written."""
        now = replace(times, tuned_s=seconds) if was_tuned else replace(times, untuned_s=seconds)
        text = json.dumps({"format": FORMAT, **asdict(now)})
        try:
            ensure_directory(self._folder)
            atomic_write(self._path(times), text.encode(), durable=False)
        except (OSError, StorageError):
            return

    def _path(self, times: ProgramTimes) -> Path:
        key = json.dumps([times.command, times.directory])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


# Keeps the result file and the program's times up to date while a program runs.
#
# Each process has one file. A forked child has its own after its first decision.

log = logging.getLogger(__name__)

_OFF, _CLEAN = "off", "clean"
"""Policies: use only PyTorch; remove what banks know."""
_PAUSE_S = 0.5
"""The time between two versions of the file."""


@dataclass(frozen=True, slots=True)
class ResultRequest:
    """A requested result file."""

    policy: str
    auto_tune_mode: str = ""
    is_asked_for: bool = False
    """Whether the file is written even without a search."""


class ProgramResults:
    """The results of this process: takes decisions, and ends with the program."""

    def __init__(self, wish: ResultRequest, folder: Path, command: tuple[str, ...]) -> None:
        self._wish, self._folder, self._command = wish, folder, command
        self._directory = str(Path.cwd())
        self._started, self._is_program = _started()
        self._counts: CountCalls = dict
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._has_warned = False
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        facts = ProgramFacts(
            self._command,
            self._directory,
            self._pid,
            self._wish.policy,
            self._wish.auto_tune_mode,
        )
        self.file = ResultFile(self._folder, facts)
        self.file.count_calls(self._counts)

    def change(self, wish: ResultRequest) -> None:
        """Change the policy."""
        asked = wish.is_asked_for or self._wish.is_asked_for
        self._wish = replace(wish, is_asked_for=asked)
        self.file.change(wish.policy, wish.auto_tune_mode)

    def count_calls(self, counts: CountCalls) -> None:
        """Set the function that counts calls."""
        self._counts = counts
        self.file.count_calls(counts)

    def take(self, decision: TorchDecision) -> None:
        """Add a decision; the file is updated soon."""
        if os.getpid() != self._pid:
            self._lock, self._timer = threading.Lock(), None
            self._started, self._is_program = time.monotonic(), False
            self._open()
        with self._lock:
            self.file.add(decision)
            if not self._is_wanted or self._timer is not None:
                return
            wait_s = _PAUSE_S if self.file.is_written else 0.0
            self._timer = threading.Timer(wait_s, self._flush)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Record the program's time and complete the file."""
        if os.getpid() != self._pid:
            return
        decisions = self.file.decisions
        self._end_program(decisions)
        if self._timer is not None:
            self._timer.cancel()
        is_off = self._is_program and self._wish.policy == _OFF
        if self._is_wanted and (decisions or is_off):
            self._flush()

    @property
    def _is_wanted(self) -> bool:
        return self._wish.is_asked_for or any(map(has_searched, self.file.decisions))

    def _end_program(self, decisions: tuple[TorchDecision, ...]) -> None:
        seconds = time.monotonic() - self._started
        was_tuned = any(one.is_ours for one in decisions)
        searched = any(map(has_searched, decisions))
        with suppress(SkipjackError):
            records = ProgramRecords(load_settings().user_dir)
            times = records.find(self._command, self._directory)
            is_off = self._wish.policy == _OFF
            before_s = times.untuned_s if self._is_program and not is_off else None
            self.file.end(ProgramTime(seconds, was_tuned, searched, before_s))
            if not self._is_program:
                return  # this process is only a part of the program
            # A failed program has not done all its work, and a dump takes time. So does the hook:
            # without our kernels, the time is stored only if none is known.
            has_failed, dumps = hasattr(sys, "last_value"), dump_folder() is not None
            is_known = times.untuned_s is not None and not is_off
            removes = self._wish.policy == _CLEAN
            if not (searched or has_failed or dumps or removes or (is_known and not was_tuned)):
                records.note(times, seconds, was_tuned=was_tuned)

    def _flush(self) -> None:
        with self._lock:
            self._timer = None
            try:
                self.file.write()
            except (SkipjackError, OSError) as error:
                if not self._has_warned:
                    log.warning("cannot write the result file: %s", error)
                self._has_warned = True


def _started() -> tuple[float, bool]:
    """The start of this process by the monotonic clock, and whether it is the program itself."""
    given = TORCH_STARTED.text()
    if given:
        pid, _, moment = given.partition(":")
        with suppress(ValueError):
            if int(pid) == os.getpid():
                return float(moment), True
    now = time.monotonic()
    with suppress(ValueError, TypeError, OSError):
        ticks = int(began(os.getpid()))
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return now - max(age, 0.0), not given
    return now, not given


_results: ProgramResults | None = None


def keep_results(wish: ResultRequest) -> ProgramResults:
    """Write a result file for this process from now on, or change the request."""
    global _results
    if _results is None:
        folder = Path(TUNE_RESULT_PATH.text() or Path.cwd())
        _results = ProgramResults(wish, folder, tuple(sys.orig_argv))
        atexit.register(_results.end)
    else:
        _results.change(wish)
    return _results


def kept_results() -> ProgramResults | None:
    """The results of this process, if they were requested."""
    return _results
