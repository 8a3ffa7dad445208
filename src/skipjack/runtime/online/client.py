"""The program's side of the process that tunes for it: requests and answers."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from skipjack.bank import Bank
from skipjack.errors import SkipjackError
from skipjack.execute import START_TIMEOUT_S, WorkerHungError, WorkerProcess

# Requests of a program to the process that tunes for it, and the answers.

TUNE, FIND, PROPOSE = "tune", "find", "propose"
"""Tune; rank all solvers; only time the libraries and the first proposal of each solver."""
LATE, FAILED = "late", "failed"
"""Further statuses of answers, besides those of the study engine: out of time, failed."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search. Times are by the clocks of this host, which its processes share."""

    id: int
    problem: str
    """The full key."""
    device: str
    user_dir: str
    plugins: tuple[str, ...]
    build_workers: int
    core: int | None
    verb: str
    seconds: float
    """Time for the search; if a lookup waits, including start-up."""
    deadline: float | None
    """When the lookup stops waiting, by the monotonic clock; None if it does not wait."""
    asked_at: float
    """By the wall clock. A search that ended after this answers the request, too."""
    retune: bool = False
    account: str | None = None
    """The file of the regret account that limits trials."""
    regret: float = 1.0
    protocol: str | None = None
    """The deployment to tune for; None is the device's default."""
    searcher: str = "auto"

    @property
    def key(self) -> tuple[str, ...]:
        """Requests with equal keys share one search."""
        return self.problem, self.device, self.user_dir, self.protocol or ""

    def body(self) -> dict[str, Any]:
        """As a message."""
        return asdict(self) | {"plugins": list(self.plugins)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> SearchRequest:
        """From a message."""
        return cls(**dict(body) | {"plugins": tuple(body["plugins"])})


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The outcome of a request."""

    status: str
    """An outcome of the study engine, or `LATE` or `FAILED`."""
    reason: str = ""
    searched: bool = False
    """Whether this request caused a search; False if another process had just searched."""
    searcher: str = ""
    """The searcher that searched the space of the winning solver."""
    rounds: tuple[tuple[float, str], ...] = ()
    """For each batch of trials, the best time so far in nanoseconds and when the batch ended."""

    def body(self) -> dict[str, Any]:
        """As a message."""
        return asdict(self)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> SearchAnswer:
        """From a message."""
        rounds = tuple((best, ended) for best, ended in body.get("rounds", ()))
        told = body["status"], body["reason"], body["searched"], body.get("searcher", "")
        return cls(*told, rounds)


# The program's side of the process that tunes for it: started once, used by any thread.
#
# A dedicated thread starts it and talks to it: Linux ends a process that is to die with its parent
# as soon as the thread that started it ends.

MODULE = "skipjack.tuning.online.server"
_IDLE_S = 60.0
"""The process ends after this time without a request; the next request starts another."""
_SILENCE_S = 60.0
"""The longest silence of a process that searches, which sends heartbeats."""
_MOST_FAILURES = 3
"""No process is started after this many in a row died or hung."""
_ENDS = "the program ends"

numbers = itertools.count()


class PendingSearch:
    """A requested search; any number of threads may wait for it."""

    def __init__(self, request: SearchRequest) -> None:
        self.request = request
        self.answer: SearchAnswer | None = None
        self._done = threading.Event()

    def wait(self, deadline: float | None) -> SearchAnswer | None:
        """The answer; None if there is none before the deadline."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        self._done.wait(left)
        return self.answer

    def finish(self, answer: SearchAnswer) -> None:
        """Set the answer and wake all waiting threads."""
        self.answer = answer
        # Lookups remember answers until a bank is written, by this process or another.
        Bank.writes += 1
        self._done.set()


def _start() -> WorkerProcess:
    return WorkerProcess("tune", module=MODULE)


class TuningProcess:
    """Started by the first request, and again after it died; one for each process of a program."""

    def __init__(
        self, start: Callable[[], WorkerProcess] = _start, silence_s: float = _SILENCE_S
    ) -> None:
        self._start, self._silence_s = start, silence_s
        self._lock = threading.Lock()
        self._asked: dict[int, PendingSearch] = {}
        self._messages: deque[dict[str, Any]] = deque()
        self._thread: threading.Thread | None = None
        self._wakened, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._failures = 0
        self._closed = False
        self._heard = self._quiet_since = 0.0
        self._ready = False

    def search(self, request: SearchRequest) -> PendingSearch:
        """Request a search, or join an unfinished one of the same problem."""
        with self._lock:
            for same in self._asked.values():
                if same.request.key == request.key:
                    return same
            pending = PendingSearch(request)
            if self._failures >= _MOST_FAILURES or self._closed:
                died = f"{self._failures} tuning processes in a row died or hung"
                pending.finish(SearchAnswer(FAILED, _ENDS if self._closed else died))
                return pending
            self._asked[request.id] = pending
            self._messages.append({"verb": "search", "request": request.body()})
            self._run_thread()
        self._wake()
        return pending

    def stop(self, pending: PendingSearch) -> None:
        """End a search with the results so far."""
        with self._lock:
            if pending.request.id in self._asked:
                self._messages.append({"verb": "stop", "id": pending.request.id})
        self._wake()

    def warm(self) -> None:
        """Start the process if necessary, before the first request."""
        with self._lock:
            if self._failures < _MOST_FAILURES and not self._closed:
                self._run_thread()

    def close(self) -> None:
        """End the process and its search."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wake()
        if thread is not None:
            thread.join(10.0)

    def _run_thread(self) -> None:
        if self._thread is None:
            self._heard, self._ready = time.monotonic(), False
            self._thread = threading.Thread(target=self._run, name="skipjack tuning", daemon=True)
            self._thread.start()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"1")

    # The thread

    def _run(self) -> None:
        worker: WorkerProcess | None = None
        try:
            worker = self._start()
            while self._exchange(worker):
                pass
        except (SkipjackError, OSError) as error:
            self._fail(str(error))
        except Exception as error:  # the program continues in any case
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            if worker is not None:
                worker.kill()

    def _exchange(self, worker: WorkerProcess) -> bool:
        """Send and receive messages; False if the process is to end."""
        with self._lock:
            while self._messages:
                worker.post(self._messages.popleft())
        full = worker.pump()
        pipe = worker.fileno()
        ready = select.select([pipe, self._wakened], [], [], 0.01 if full else 1.0)[0]
        if self._wakened in ready:
            os.read(self._wakened, 4096)
        if pipe in ready:
            self._heard = time.monotonic()
            for message in worker.collect():
                self._ready = True
                self._take(message.body)
        self._check_time()
        with self._lock:
            idle = not self._asked and not self._messages
            bored = idle and time.monotonic() - self._heard > _IDLE_S
            if bored or self._closed:
                self._thread = None
                for pending in self._asked.values():
                    pending.finish(SearchAnswer(FAILED, _ENDS))
                self._asked.clear()
                return False
        return True

    def _take(self, body: dict[str, Any]) -> None:
        if "id" not in body:
            return  # a start-up message or a heartbeat
        with self._lock:
            pending = self._asked.pop(body["id"], None)
            self._failures = 0
        if pending is not None:
            pending.finish(SearchAnswer.of(body))

    def _check_time(self) -> None:
        with self._lock:
            problems = [pending.request.problem for pending in self._asked.values()]
            if not problems:
                self._quiet_since = time.monotonic()
        most_s = self._silence_s if self._ready else START_TIMEOUT_S
        if problems and time.monotonic() > max(self._heard, self._quiet_since) + most_s:
            raise WorkerHungError(f"the process that tunes {problems[0]} does not respond")

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._thread = None
            asked, self._asked = list(self._asked.values()), {}
            self._messages.clear()
        for pending in asked:
            pending.finish(SearchAnswer(FAILED, reason))


_process: TuningProcess | None = None
_making = threading.Lock()


def tuning_process() -> TuningProcess:
    """The tuning process of this process."""
    global _process
    with _making:
        if _process is None:
            _process = TuningProcess()
        return _process


@atexit.register
def _close() -> None:
    if _process is not None:
        _process.close()


def _forget() -> None:
    """In a forked child: the process belongs to the parent, and must not be closed."""
    global _process, _making
    _process, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
