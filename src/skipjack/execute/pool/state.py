"""The state machine of a pool of workers, without processes, pipes or clocks.

Each event is a method that takes the time at which it happened. `decide` then returns the
instructions that follow: start a worker, send it tasks, end it, report a task as lost. A worker
answers in the order of its tasks, so the first task without an answer is its current one, which is
lost if the worker dies.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class Cause(Enum):
    """Why a task was lost."""

    CRASHED = "the worker ended during the task"
    TIMED_OUT = "the task took longer than a task may"
    SILENT = "the worker sent no heartbeat"
    NOT_STARTED = "no worker could be started"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of a pool."""

    ahead: int = 0
    """Tasks that are sent to a worker beyond its current one, so that it need not wait."""
    quick_ahead: int = 0
    """The same after a quick task, if that is more."""
    quick_s: float = 0.01
    task_s: float = math.inf
    """The time that one task may take."""
    silence_s: float = math.inf
    """A worker that sends nothing for this long is ended. For workers with a heartbeat."""
    start_s: float = 60.0
    """The time that a worker may take to start."""
    second_chance: bool = False
    """Whether a task is tried once more, alone, if its worker was killed from outside.

    Once may be an accident; a task that takes all memory has its worker killed twice.
    """
    most_failed_starts: int = 3
    """Failed starts in a row after which a slot pauses."""
    pause_s: float = 10.0
    on_demand: bool = False
    """Whether workers are only started when tasks are waiting."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker in an empty slot."""

    slot: str


@dataclass(frozen=True, slots=True)
class SendTasks(Generic[T]):
    """Send tasks to the worker, in this order."""

    slot: str
    tasks: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class EndWorker:
    """End the worker now; in the state it has already ended."""

    slot: str


@dataclass(frozen=True, slots=True)
class TaskLost(Generic[T]):
    """A task without an answer."""

    slot: str
    task: T
    cause: Cause
    how: str
    """What happened to the worker, as a predicate: ``ended by SIGSEGV``."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NotStarting:
    """A slot in which workers do not start; it is tried again after a pause."""

    slot: str
    how: str


Instruction = StartWorker | SendTasks[T] | EndWorker | TaskLost[T] | NotStarting


class _Phase(Enum):
    DOWN = 0
    STARTING = 1
    READY = 2


@dataclass(slots=True)
class _Entry(Generic[T]):
    age: int
    """The order of submission: a task that returns to the queue is at its front again."""
    task: T
    slot: str
    """The slot that must do the task; empty if any may."""
    cancelled: bool = False
    retried: bool = False

    def __lt__(self, other: _Entry[T]) -> bool:
        return self.age < other.age


@dataclass(slots=True)
class _Slot(Generic[T]):
    name: str
    queue: list[_Entry[T]] = field(default_factory=list)
    """A heap of the tasks for this slot only."""
    sent: deque[_Entry[T]] = field(default_factory=deque)
    """Tasks without an answer; the first is the current one."""
    phase: _Phase = _Phase.DOWN
    began: float = 0.0
    heard: float | None = None
    first_since: float = 0.0
    quick: bool = False
    failed_starts: int = 0
    paused_until: float = -math.inf


class PoolState(Generic[T]):
    """The tasks and workers of a pool. A slot has one worker at a time, or none."""

    def __init__(self, slots: Iterable[str], limits: PoolLimits) -> None:
        self.limits = limits
        self._slots: dict[str, _Slot[T]] = {name: _Slot(name) for name in slots}
        self._shared: list[_Entry[T]] = []
        """A heap of the tasks for any slot."""
        self._ages = itertools.count()
        self._out: list[Instruction[T]] = []

    # Tasks

    def submit(self, task: T, slot: str = "") -> None:
        """Queue a task, for one slot or for any."""
        self._queue(_Entry(next(self._ages), task, slot))

    def withdraw(self) -> list[T]:
        """Take back the tasks that were not sent to a worker, and return them."""
        queues = [self._shared, *(slot.queue for slot in self._slots.values())]
        taken = [entry.task for queue in queues for entry in sorted(queue)]
        for queue in queues:
            queue.clear()
        return taken

    def cancel(self, unwanted: Callable[[T], bool]) -> None:
        """Forget tasks; a worker whose current task is one of them is ended.

        They are not reported anymore, even if they were lost before or are answered later.
        """
        self._shared = _without(self._shared, unwanted)
        self._out = [o for o in self._out if not isinstance(o, TaskLost) or not unwanted(o.task)]
        for slot in self._slots.values():
            slot.queue = _without(slot.queue, unwanted)
            for entry in slot.sent:
                entry.cancelled |= unwanted(entry.task)

    @property
    def pending(self) -> int:
        """Tasks that were submitted and not yet returned."""
        sent = (entry for slot in self._slots.values() for entry in slot.sent)
        waiting = sum(len(slot.queue) for slot in self._slots.values())
        return len(self._shared) + waiting + sum(not entry.cancelled for entry in sent)

    # Events of workers

    def ready(self, slot: str, now: float) -> None:
        """The worker is ready for tasks."""
        here = self._slots[slot]
        here.phase, here.heard, here.failed_starts = _Phase.READY, now, 0

    def heard(self, slot: str, now: float) -> None:
        """The worker sent something."""
        self._slots[slot].heard = now

    def current(self, slot: str) -> T:
        """The task that the next answer is for; `ValueError` if there is none."""
        here = self._slots[slot]
        if not here.sent:
            raise ValueError("an answer without a task")
        return here.sent[0].task

    def answered(self, slot: str, now: float, seconds: float) -> bool:
        """The current task is done and took this long; returns False if it was cancelled."""
        here = self._slots[slot]
        entry = here.sent.popleft()
        here.first_since, here.quick = now, seconds < self.limits.quick_s
        return not entry.cancelled

    def refused(self, slot: str, count: int) -> None:
        """The worker received none of the last `count` tasks: they wait again."""
        here = self._slots[slot]
        for _ in range(count):
            self._queue(here.sent.pop())

    def interrupted(self, slot: str) -> None:
        """The worker was ended by us, not by a task."""
        self._vacate(self._slots[slot])

    def died(self, slot: str, now: float, how: str, *, from_outside: bool = False) -> None:
        """The worker has died, or never started."""
        here = self._slots[slot]
        may_retry = from_outside and self.limits.second_chance
        if may_retry and here.sent and not here.sent[0].retried:
            here.sent[0].retried = True
            self._vacate(here)
        else:
            self._lose_worker(here, now, Cause.CRASHED, how)

    def expire(self, now: float, heard: Collection[str] = ()) -> None:
        """End workers that are late or silent.

        Call it after reading from the workers, and pass those that sent something in `heard`: more
        of their answer may still be in the pipe, so that they are not late.
        """
        for slot in self._slots.values():
            if slot.name not in heard:
                self._check_time(slot, now)

    def add_idle_time(self, seconds: float) -> None:
        """The pool did not listen for this long, which does not count as the workers' silence."""
        for slot in self._slots.values():
            if slot.heard is not None:
                slot.heard += seconds

    def is_ready(self, slot: str) -> bool:
        """Whether the worker is ready for tasks."""
        return self._slots[slot].phase is _Phase.READY

    @property
    def quick(self) -> bool:
        """Whether a worker will soon be done with more tasks."""
        return any(slot.quick and slot.sent for slot in self._slots.values())

    # Decisions

    def decide(self, now: float) -> list[Instruction[T]]:
        """The instructions that follow from the events so far, in order."""
        for slot in self._slots.values():
            if slot.sent and slot.sent[0].cancelled:
                self._out.append(EndWorker(slot.name))
                self._vacate(slot)
        for slot in self._slots.values():
            wanted = not self.limits.on_demand or slot.queue or self._shared
            if slot.phase is _Phase.DOWN and now >= slot.paused_until and wanted:
                slot.phase, slot.began = _Phase.STARTING, now
                self._out.append(StartWorker(slot.name))
        self._feed(now)
        out, self._out = self._out, []
        return out

    def _check_time(self, slot: _Slot[T], now: float) -> None:
        limits = self.limits
        if slot.phase is _Phase.DOWN:
            return
        if slot.phase is _Phase.STARTING and now - slot.began > limits.start_s:
            cause, how = Cause.CRASHED, f"was not ready within {limits.start_s:g} s"
        elif slot.sent and now - slot.first_since > limits.task_s:
            cause, how = Cause.TIMED_OUT, f"took longer than {limits.task_s:g} s"
        elif slot.heard is not None and now - slot.heard > limits.silence_s:
            cause = Cause.SILENT
            how = f"sent no heartbeat for {limits.silence_s:g} s and was ended"
        else:
            return
        self._out.append(EndWorker(slot.name))
        self._lose_worker(slot, now, cause, how)

    def _feed(self, now: float) -> None:
        """Send the same number to all workers, so that the last tasks run at the same time."""
        given: dict[str, list[T]] = {}
        with_room = [
            slot
            for slot in self._slots.values()
            if slot.phase is _Phase.READY and (slot.queue or self._shared) and self._room(slot)
        ]
        while with_room:
            slot = min(with_room, key=lambda one: len(one.sent))
            entry = self._next(slot)
            if entry is None:
                with_room.remove(slot)
                continue
            if not slot.sent:
                slot.first_since = now
            slot.sent.append(entry)
            given.setdefault(slot.name, []).append(entry.task)
            if not self._room(slot):
                with_room.remove(slot)
        self._out += [SendTasks(name, tuple(tasks)) for name, tasks in given.items()]

    def _room(self, slot: _Slot[T]) -> int:
        if slot.sent and slot.sent[-1].retried:
            return 0
        ahead = max(self.limits.ahead, self.limits.quick_ahead if slot.quick else 0)
        return max(0, 1 + ahead - len(slot.sent))

    def _next(self, slot: _Slot[T]) -> _Entry[T] | None:
        """The first task that may be sent to a slot now; one that is retried is sent alone."""
        queues = [queue for queue in (slot.queue, self._shared) if queue]
        if not queues:
            return None
        queue = min(queues, key=lambda one: one[0])
        if queue[0].retried and slot.sent:
            return None
        return heapq.heappop(queue)

    # Ends

    def _lose_worker(self, slot: _Slot[T], now: float, cause: Cause, how: str) -> None:
        started = slot.phase is _Phase.READY
        to_blame = slot.sent.popleft() if started and slot.sent else None
        self._vacate(slot)
        if to_blame and not to_blame.cancelled:
            spent = now - slot.first_since
            self._out.append(TaskLost(slot.name, to_blame.task, cause, how, spent))
        if not started:
            self._start_failed(slot, now, how)

    def _start_failed(self, slot: _Slot[T], now: float, how: str) -> None:
        slot.failed_starts += 1
        if slot.failed_starts < self.limits.most_failed_starts:
            return
        slot.paused_until = now + self.limits.pause_s
        self._out.append(NotStarting(slot.name, how))
        queues = [slot.queue]
        if all(one.paused_until > now for one in self._slots.values()):
            queues.append(self._shared)
        for queue in queues:
            lost = [TaskLost(slot.name, e.task, Cause.NOT_STARTED, how) for e in sorted(queue)]
            self._out += lost
            queue.clear()

    def _vacate(self, slot: _Slot[T]) -> None:
        """The worker has ended; the tasks that it was sent wait again, unless cancelled."""
        while slot.sent:
            self._queue(slot.sent.pop())
        slot.phase, slot.heard, slot.quick = _Phase.DOWN, None, False

    def _queue(self, entry: _Entry[T]) -> None:
        if not entry.cancelled:
            queue = self._slots[entry.slot].queue if entry.slot else self._shared
            heapq.heappush(queue, entry)


def _without(queue: Sequence[_Entry[T]], unwanted: Callable[[T], bool]) -> list[_Entry[T]]:
    kept = [entry for entry in queue if not unwanted(entry.task)]
    heapq.heapify(kept)
    return kept
