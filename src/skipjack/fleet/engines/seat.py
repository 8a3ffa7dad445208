"""One slot of this machine: its queue of tasks, and a process that another replaces if it dies."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from skipjack.execute.process import START_TIMEOUT_S, WorkerDiedError, WorkerProcess
from skipjack.execute.wire import Message
from skipjack.fleet.engine import Done, RunningLog, Slot
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.task import Outcome, Task

log = logging.getLogger(__name__)

MOST_FAILED_STARTS = 3
PAUSE_S = 10.0
"""After so many workers in a row that did not start, until the next attempt."""
AHEAD, QUICK_AHEAD = 1, 64
"""Tasks that a worker is given beyond the one it is at, so that it need not wait for us; more of
them where tasks are quick."""
QUICK_S = 0.01
"""A task that takes less than this is quick."""


@dataclass(slots=True)
class _Order:
    task: Task
    cancelled: bool = False


class Seat:
    """Whoever calls `tend` often enough gets every task back in `take` once, done or lost."""

    def __init__(self, slot: Slot, start: Callable[[], WorkerProcess], stall_s: float) -> None:
        self.slot = slot
        self.process: WorkerProcess | None = None
        self._start, self._stall_s = start, stall_s
        self._waiting: deque[_Order] = deque()
        self._sent: deque[_Order] = deque()
        """The worker does the first, or has done it and we have not read so yet."""
        self._done: list[Done] = []
        self._said: RunningLog | None = None
        self._ready = self._quick = False
        self._began = self._heard = 0.0
        self._failed_starts = 0
        self._paused_until = 0.0

    # Orders

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks."""
        self._waiting.extend(map(_Order, tasks))

    def cancel(self, jobs: Collection[int]) -> None:
        """Forget jobs; a worker that is at one of them is ended.

        Nothing more is heard of them: who is given such a job again must not take what came of the
        first time for what came of the second.
        """
        for order in self._sent:
            order.cancelled |= order.task.job in jobs
        self._waiting = deque(order for order in self._waiting if order.task.job not in jobs)
        self._done = [done for done in self._done if done.job not in jobs]
        self._end_unwanted()

    def take(self) -> list[Done]:
        """What is done since the last time."""
        done, self._done = self._done, []
        return done

    def take_said(self) -> list[RunningLog]:
        """What its worker says about the task it is at, if that grew since the last time."""
        said, self._said = self._said, None
        return [said] if said else []

    @property
    def paused(self) -> bool:
        """Its workers do not start; for a while it is not tried again."""
        return time.monotonic() < self._paused_until

    @property
    def quick(self) -> bool:
        """Whether the worker is about to be done with more."""
        return self._quick and bool(self._sent)

    # The process

    def tend(self) -> None:
        """Start a worker if there is none and give it what it can do."""
        if self.process is None and not self.paused:
            self._begin()
        self._feed()

    def excuse(self, seconds: float) -> None:
        """Nobody listened for so long: that is not the worker's silence."""
        self._heard += seconds if self._heard else 0.0

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._heard, self._ready, self._quick = 0.0, False, False
        try:
            self.process = self._start()
        except OSError as error:
            self._start_failed(f"could not be started: {error.strerror or error}")

    def _feed(self) -> None:
        if self.process is None or not self.process.alive:
            return  # `listen` finds out how it ended
        room = 1 + (QUICK_AHEAD if self._quick else AHEAD) - len(self._sent)
        if self._ready and room > 0 and self._waiting:
            orders = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            self._sent.extend(orders)
            parcel = pack([order.task.message() for order in orders])
            self.process.post(parcel.body, parcel.blobs)
        try:
            self.process.pump()
        except WorkerDiedError:
            log.debug("%s takes no tasks; what it says last comes next", self.slot.name)

    def listen(self) -> None:
        """Read what the worker says, once `select` said that it said something."""
        if self.process is None:
            return
        try:
            messages = self.process.collect()
            self._heard = time.monotonic()
            for message in messages:
                self._understand(message)
        except WorkerDiedError as error:
            words = f": {error.words}" if error.words and error.words not in str(error) else ""
            self._fell(f"{error}{words}")
        except Exception as error:  # whatever it said, it was no answer of ours
            self._fell(f"answered nonsense: {error}")
        self._end_unwanted()

    def _understand(self, message: Message) -> None:
        if "ready" in message.body:
            self._ready = True
            self._failed_starts = 0
        if said := message.body.get("said"):
            self._said = RunningLog(**said)
        if "bodies" in message.body:
            for answer, seconds in zip(unpack(message), message.body["seconds"], strict=True):
                self._settle(Outcome.of(answer), seconds)

    def _settle(self, outcome: Outcome, seconds: float) -> None:
        task = self._sent[0].task
        if (outcome.job, outcome.stage) != (task.job, task.stage):
            raise ValueError(f"an outcome of job {outcome.job} instead of {task.job}")
        order = self._sent.popleft()
        self._quick = seconds < QUICK_S
        if not order.cancelled:
            self._done.append(
                Done(self.slot.name, task.job, outcome, attempt=task.attempt, seconds=seconds)
            )

    def check_signs(self) -> None:
        """End a worker that has been silent for too long; after `listen`."""
        if self.process is None:
            return
        now = time.monotonic()
        if not self._ready and now - self._began > START_TIMEOUT_S:
            self._fell(f"was not ready within {START_TIMEOUT_S:g} s")
        elif self._heard and now - self._heard > self._stall_s:
            self._fell(f"gave no sign of life for {self._stall_s:g} s and was ended")

    # Its end

    def _fell(self, how: str) -> None:
        """The worker is gone or must go: its task is lost, the others are for the next worker."""
        started = self._ready
        guilty = self._sent.popleft() if self._sent else None
        self._end()
        if guilty and not guilty.cancelled:
            self._lose(guilty, f"the worker {how}")
        if started:
            log.warning("the worker of %s %s; another takes its place", self.slot.name, how)
        else:
            self._start_failed(how)

    def _start_failed(self, how: str) -> None:
        self._failed_starts += 1
        if self._failed_starts < MOST_FAILED_STARTS:
            return
        log.error("workers of %s do not start: the last one %s", self.slot.name, how)
        self._paused_until = time.monotonic() + PAUSE_S
        for order in self._waiting:
            self._lose(order, f"workers of {self.slot.name} do not start: the last one {how}")
        self._waiting.clear()

    def _lose(self, order: _Order, reason: str) -> None:
        self._done.append(
            Done(self.slot.name, order.task.job, lost=reason, attempt=order.task.attempt)
        )

    def _end_unwanted(self) -> None:
        if self._sent and self._sent[0].cancelled:
            self._end()

    def _end(self) -> None:
        """End the process; what it had not yet begun waits again, in the same order."""
        if self.process is not None:
            self.process.kill()
            self.process = None
        self._ready = False
        self._waiting.extendleft(order for order in reversed(self._sent) if not order.cancelled)
        self._sent.clear()

    def close(self) -> None:
        """End the worker; tasks it still had come to nothing."""
        self._end()
        self._waiting.clear()
