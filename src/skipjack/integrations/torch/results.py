"""Keeps the result file and the program's times up to date while a program runs.

One for a process. A forked child has one of its own, as soon as something is decided in it.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.errors import SkipjackError
from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.program_times import ProgramRecords
from skipjack.integrations.torch.result_file import (
    CountCalls,
    ProgramFacts,
    ProgramTime,
    ResultFile,
    has_searched,
)
from skipjack.processes import began
from skipjack.runtime.dumps import dump_folder
from skipjack.settings import TORCH_STARTED, TUNE_RESULT_PATH, load_settings

log = logging.getLogger(__name__)

_OFF, _CLEAN = "off", "clean"
"""Policies: PyTorch computes everything, and what is known is removed."""
_PAUSE_S = 0.5
"""Between two versions of the file."""


@dataclass(frozen=True, slots=True)
class ResultWish:
    """What somebody asked for."""

    policy: str
    auto_tune_mode: str = ""
    is_asked_for: bool = False
    """Whether the file is written even if nothing is searched."""


class ProgramResults:
    """Of this process: listens to decisions, and ends with the program."""

    def __init__(self, wish: ResultWish, folder: Path, command: tuple[str, ...]) -> None:
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

    def change(self, wish: ResultWish) -> None:
        """Somebody chose another policy."""
        asked = wish.is_asked_for or self._wish.is_asked_for
        self._wish = replace(wish, is_asked_for=asked)
        self.file.change(wish.policy, wish.auto_tune_mode)

    def count_calls(self, counts: CountCalls) -> None:
        """Where the numbers of calls come from."""
        self._counts = counts
        self.file.count_calls(counts)

    def take(self, decision: TorchDecision) -> None:
        """Note a decision; the file follows soon."""
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
        """The program ends: its time is noted, and the file is complete."""
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
                return  # its time is that of a part of the program
            # One that failed has not done all of its work, and a dump takes time of its own. The
            # hook does too: without kernels, only what is not known yet is noted.
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
                    log.warning("the result file cannot be written: %s", error)
                self._has_warned = True


def _started() -> tuple[float, bool]:
    """When this process began, by the monotonic clock, and whether it is the program itself."""
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


def keep_results(wish: ResultWish) -> ProgramResults:
    """Have this process keep a result file, from now on or with another wish."""
    global _results
    if _results is None:
        folder = Path(TUNE_RESULT_PATH.text() or Path.cwd())
        _results = ProgramResults(wish, folder, tuple(sys.orig_argv))
        atexit.register(_results.end)
    else:
        _results.change(wish)
    return _results


def kept_results() -> ProgramResults | None:
    """Those of this process, if somebody asked for them."""
    return _results
