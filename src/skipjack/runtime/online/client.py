"""The program's side of the process that tunes for it: started once, asked by any thread.

A thread of its own starts it and talks to it: the kernel ends a process that wants to die with its
parent already when the thread ends that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from skipjack.bank import Bank
from skipjack.errors import SkipjackError
from skipjack.execute.process import START_TIMEOUT_S, WorkerHungError, WorkerProcess
from skipjack.runtime.online.request import FAILED, SearchAnswer, SearchRequest

MODULE = "skipjack.tuning.online.serving"
_IDLE_S = 60.0
"""Nobody having asked for so long, the process ends; the next request starts another."""
_SILENCE_S = 60.0
"""A process that searches gives a sign of life more often."""
_MOST_FAILURES = 3
"""As many processes in a row that died or hung are enough."""
_ENDS = "the program ends"

numbers = itertools.count()


class PendingSearch:
    """A search that was asked for; any number of threads may wait for it."""

    def __init__(self, request: SearchRequest) -> None:
        self.request = request
        self.answer: SearchAnswer | None = None
        self._done = threading.Event()

    def wait(self, deadline: float | None) -> SearchAnswer | None:
        """The answer; None if it is not there by then."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        self._done.wait(left)
        return self.answer

    def finish(self, answer: SearchAnswer) -> None:
        """Tell all who wait."""
        self.answer = answer
        # Lookups remember answers until a bank of theirs is written, here or elsewhere.
        Bank.writes += 1
        self._done.set()


def _start() -> WorkerProcess:
    return WorkerProcess("tune", module=MODULE)


class TuningProcess:
    """Started when it is first asked, and again after it died; one for a program's process."""

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
        """Ask for a search, or join one of the same problem that is not done."""
        with self._lock:
            for same in self._asked.values():
                if same.request.key == request.key:
                    return same
            pending = PendingSearch(request)
            if self._failures >= _MOST_FAILURES or self._closed:
                died = f"{self._failures} processes that should tune died or hung"
                pending.finish(SearchAnswer(FAILED, _ENDS if self._closed else died))
                return pending
            self._asked[request.id] = pending
            self._messages.append({"verb": "search", "request": request.body()})
            self._run_thread()
        self._wake()
        return pending

    def stop(self, pending: PendingSearch) -> None:
        """Have a search end with what it knows."""
        with self._lock:
            if pending.request.id in self._asked:
                self._messages.append({"verb": "stop", "id": pending.request.id})
        self._wake()

    def warm(self) -> None:
        """Start the process if it is not there: somebody will ask soon."""
        with self._lock:
            if self._failures < _MOST_FAILURES and not self._closed:
                self._run_thread()

    def close(self) -> None:
        """End the process, and whatever it is at."""
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

    # the thread

    def _run(self) -> None:
        worker: WorkerProcess | None = None
        try:
            worker = self._start()
            while self._exchange(worker):
                pass
        except (SkipjackError, OSError) as error:
            self._fail(str(error))
        except Exception as error:  # whatever it is, the program goes on
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            if worker is not None:
                worker.kill()

    def _exchange(self, worker: WorkerProcess) -> bool:
        """Send what there is to send, and take what has come; False if that was all."""
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
            return  # it is ready, or alive
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
            raise WorkerHungError(f"the process that tunes {problems[0]} hangs")

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
    """The one of this process."""
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
    """In a forked child: the process is the parent's, and not closed when the child ends."""
    global _process, _making
    _process, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
