"""What a tuning server records of its searches: the time that trials may take, the course of a
search, and when a problem was last searched.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from skipjack.errors import MalformedError
from skipjack.interrupt import Interrupt
from skipjack.reading import read_json
from skipjack.runtime.online import FOLDER, RegretAccount, SearchRequest
from skipjack.storage import atomic_write, ensure_directory
from skipjack.tuning.study import DAY_S, Observer, TuneOutcome, TuneProgress, TuneResult

# A gate for trials that would take more than their share of the program's kernel time.

_PAUSE_S = 0.05
FINAL = "final"


class RegretGate:
    """Counts the time of a search, and pauses it while its share is spent.

    A paused search releases the device, and takes it again with `hold`.
    """

    def __init__(
        self,
        account: RegretAccount,
        share: float,
        interrupt: Interrupt,
        hold: Callable[[], AbstractContextManager[None]],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._account, self._share, self._interrupt = account, share, interrupt
        self._hold, self._now, self._sleep = hold, now, sleep
        self._held = ExitStack()
        self._paused_s = 0.0
        self._since = now()

    def clock(self) -> float:
        """Seconds without pauses, for a search's budget."""
        return self._now() - self._paused_s

    def __enter__(self) -> RegretGate:
        self._wait(0.0)
        self._held.enter_context(self._hold())
        self._since = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self._note()
        self._held.close()

    def observe(self, progress: TuneProgress) -> None:
        """Pause before the next batch or the final if there is no time left for it.

        A batch takes about as long as the one before, the final a share of the budget.
        """
        next_s = self._note()
        if progress.phase == FINAL and progress.budget.seconds is not None:
            next_s = max(next_s, 0.2 * progress.budget.seconds)
        if self._allowed(next_s):
            return
        self._held.close()
        self._wait(next_s)
        self._held.enter_context(self._hold())
        self._since = self._now()

    def _note(self) -> float:
        now = self._now()
        took, self._since = now - self._since, now
        self._account.add(trial_ns=int(took * 1e9))
        return took

    def _allowed(self, next_s: float) -> bool:
        sums = self._account.add()
        return sums.kernel_ns > 0 and sums.allow(self._share, next_s * 1e9)

    def _wait(self, next_s: float) -> None:
        began = self._now()
        while not self._interrupt.requested and not self._allowed(next_s):
            self._sleep(_PAUSE_S)
        self._paused_s += self._now() - began


# The course of a search: the best time after each batch of trials, and the searcher.

_MOST = 200
"""The last rounds are reported, at most this many."""


class SearchRounds:
    """Observes a search, and passes its progress on to another observer."""

    def __init__(
        self, also: Observer | None = None, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._also, self._now = also, now
        self._rounds: list[tuple[float, str]] = []
        self._trials = 0

    def observe(self, progress: TuneProgress) -> None:
        """Note the best time of a batch."""
        if progress.best_ns is not None and progress.trials > self._trials:
            self._trials = progress.trials
            ended = self._now().strftime("%Y-%m-%d %H:%M:%S")
            self._rounds.append((progress.best_ns, ended))
        if self._also is not None:
            self._also(progress)

    def history(self) -> tuple[tuple[float, str], ...]:
        """The best time in nanoseconds of each round, and when it ended."""
        return tuple(self._rounds[-_MOST:])


def winning_searcher(result: TuneResult) -> str:
    """The searcher of the solver that won, or of the solver with the most trials.

    Empty if nothing was tried because all was known from an earlier search.
    """
    ran = [score for score in result.solvers if score.trials]
    won = [score for score in ran if score.solver == result.solver]
    most = max(ran, key=lambda score: score.trials, default=None)
    chosen = won[0] if won else most
    return chosen.searcher if chosen else ""


# Records of the last search of each problem, by any process of this host, and its result.
#
# A bank knows the searches that found something; processes that wait for the same search need to
# know the others, too.


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """The result of one search."""

    problem: str
    device: str
    """The class of the device, and the deployment."""
    ended_at: float
    """The time by the wall clock."""
    status: str
    reason: str = ""
    verb: str = ""
    seconds: float = 0.0
    """The time that it was allowed to take."""
    searcher: str = ""

    def answers(self, request: SearchRequest) -> bool:
        """Whether it makes a search for the request unnecessary.

        It does if it ended after the request was made. A search that other programs disturbed
        leaves no entry, so that every process would start it again: the same search with no more
        time is not repeated within a day.
        """
        if self.ended_at >= request.asked_at:
            return True
        same = self.verb == request.verb and request.seconds <= self.seconds
        recent = request.asked_at - self.ended_at < DAY_S
        return self.status == TuneOutcome.NOISY and same and recent and not request.retune


class SearchRecords:
    """One small file for each problem and class of device, in the user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def last(self, problem: str, device: str) -> SearchRecord | None:
        """The last search; None if there was none, or its record cannot be read."""
        try:
            found = read_json(self._path(problem, device).read_bytes()).mapping()
            record = SearchRecord(**found)
            return record if (record.problem, record.device) == (problem, device) else None
        except (OSError, MalformedError, TypeError):
            return None

    def put(self, record: SearchRecord) -> None:
        """Store a record in place of the previous one."""
        path = self._path(record.problem, record.device)
        ensure_directory(path.parent)
        atomic_write(path, json.dumps(asdict(record)).encode())

    def _path(self, problem: str, device: str) -> Path:
        name = hashlib.sha256(f"{problem}|{device}".encode()).hexdigest()[:24]
        return self._folder / f"search-{name}.json"
