"""What a pool of workers does next: a state machine without processes, pipes or clocks.

Each event is a method that takes the time at which it happened. `decide` then gives the
instructions that follow: start a worker, send it tasks, end it, report a task as lost. A worker
answers in the order of its tasks, so the first task without an answer is its current one: that task
is to blame when the worker dies.
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
    SILENT = "the worker gave no sign of life"
    NOT_STARTED = "no worker could be started"


@dataclass(frozen=True, slots=True)
class PoolRules:
    """The numbers of a pool."""

    ahead: int = 0
    """Tasks that a worker is sent beyond its current one, so that it need not wait for us."""
    quick_ahead: int = 0
    """The same where its last task was quick, if that is more."""
    quick_s: float = 0.01
    task_s: float = math.inf
    """What one task may take."""
    silence_s: float = math.inf
    """A worker that says nothing for so long is ended. For workers that send signs of life."""
    start_s: float = 60.0
    """What a worker may take until it is ready."""
    second_chance: bool = False
    """Whether a task is tried once more, alone, if its worker was ended from outside.

    Once may be an accident; a task that takes all memory has its worker killed twice.
    """
    most_failed_starts: int = 3
    """In a row, in one slot; then the slot pauses."""
    pause_s: float = 10.0
    on_demand: bool = False
    """Whether workers are started for waiting tasks only, and not ahead of them."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker in a slot that has none."""

    slot: str


@dataclass(frozen=True, slots=True)
class SendTasks(Generic[T]):
    """Send tasks to the worker, in this order."""

    slot: str
    tasks: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class EndWorker:
    """End the worker now; the state counts it as gone already."""

    slot: str


@dataclass(frozen=True, slots=True)
class TaskLost(Generic[T]):
    """A task without an answer."""

    slot: str
    task: T
    cause: Cause
    how: str
    """What became of the worker, as a predicate: ``ended by SIGSEGV``."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NotStarting:
    """A slot where workers do not start; it is tried again after a pause."""

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
    """A task that returns to the queue is at its front again."""
    task: T
    slot: str
    """The one that must do it; empty if any may."""
    cancelled: bool = False
    retried: bool = False

    def __lt__(self, other: _Entry[T]) -> bool:
        return self.age < other.age


@dataclass(slots=True)
class _Slot(Generic[T]):
    name: str
    queue: list[_Entry[T]] = field(default_factory=list)
    """A heap of the tasks for this slot alone."""
    sent: deque[_Entry[T]] = field(default_factory=deque)
    """The first is the current one, or answered without our having read the answer."""
    phase: _Phase = _Phase.DOWN
    began: float = 0.0
    heard: float | None = None
    first_since: float = 0.0
    quick: bool = False
    failed_starts: int = 0
    paused_until: float = -math.inf


class PoolState(Generic[T]):
    """The tasks and workers of a pool. A slot has one worker at a time, or none."""

    def __init__(self, slots: Iterable[str], rules: PoolRules) -> None:
        self.rules = rules
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
        """Take back what no worker was sent."""
        queues = [self._shared, *(slot.queue for slot in self._slots.values())]
        taken = [entry.task for queue in queues for entry in sorted(queue)]
        for queue in queues:
            queue.clear()
        return taken

    def cancel(self, unwanted: Callable[[T], bool]) -> None:
        """Forget tasks; a worker whose current task is one of them is ended.

        Nothing more is reported of them, whether they were lost before or are answered later.
        """
        self._shared = _without(self._shared, unwanted)
        self._out = [o for o in self._out if not isinstance(o, TaskLost) or not unwanted(o.task)]
        for slot in self._slots.values():
            slot.queue = _without(slot.queue, unwanted)
            for entry in slot.sent:
                entry.cancelled |= unwanted(entry.task)

    @property
    def pending(self) -> int:
        """Tasks that were submitted and have not come back."""
        sent = (entry for slot in self._slots.values() for entry in slot.sent)
        waiting = sum(len(slot.queue) for slot in self._slots.values())
        return len(self._shared) + waiting + sum(not entry.cancelled for entry in sent)

    # Events of workers

    def ready(self, slot: str, now: float) -> None:
        """The worker takes tasks."""
        here = self._slots[slot]
        here.phase, here.heard, here.failed_starts = _Phase.READY, now, 0

    def heard(self, slot: str, now: float) -> None:
        """The worker said something, whatever it was."""
        self._slots[slot].heard = now

    def current(self, slot: str) -> T:
        """The task that the next answer is for; `ValueError` if there is none."""
        here = self._slots[slot]
        if not here.sent:
            raise ValueError("an answer to no task")
        return here.sent[0].task

    def answered(self, slot: str, now: float, seconds: float) -> bool:
        """The current task is done and took so long; False if it was cancelled meanwhile."""
        here = self._slots[slot]
        entry = here.sent.popleft()
        here.first_since, here.quick = now, seconds < self.rules.quick_s
        return not entry.cancelled

    def refused(self, slot: str, count: int) -> None:
        """The worker took nothing of the last so many tasks: they wait again."""
        here = self._slots[slot]
        for _ in range(count):
            self._queue(here.sent.pop())

    def interrupted(self, slot: str) -> None:
        """The worker was ended for a reason of ours: no task is to blame."""
        self._vacate(self._slots[slot])

    def died(self, slot: str, now: float, how: str, *, from_outside: bool = False) -> None:
        """The worker is gone, also one that never started."""
        here = self._slots[slot]
        may_retry = from_outside and self.rules.second_chance
        if may_retry and here.sent and not here.sent[0].retried:
            here.sent[0].retried = True
            self._vacate(here)
        else:
            self._lose_worker(here, now, Cause.CRASHED, how)

    def expire(self, now: float, heard: Collection[str] = ()) -> None:
        """Give up workers that are late or silent.

        Call it after what workers said was read, and name those who just said something: more of
        their answer may be in the pipe, and a caller who was busy must not blame them for it.
        """
        for slot in self._slots.values():
            if slot.name not in heard:
                self._check_time(slot, now)

    def excuse(self, seconds: float) -> None:
        """The pool itself did not listen for so long: that was not the workers' silence."""
        for slot in self._slots.values():
            if slot.heard is not None:
                slot.heard += seconds

    def is_ready(self, slot: str) -> bool:
        """Whether the worker takes tasks."""
        return self._slots[slot].phase is _Phase.READY

    @property
    def quick(self) -> bool:
        """Whether a worker will be done with more in a moment."""
        return any(slot.quick and slot.sent for slot in self._slots.values())

    # Decisions

    def decide(self, now: float) -> list[Instruction[T]]:
        """What follows from the events so far, in the order in which it is to be done."""
        for slot in self._slots.values():
            if slot.sent and slot.sent[0].cancelled:
                self._out.append(EndWorker(slot.name))
                self._vacate(slot)
        for slot in self._slots.values():
            wanted = not self.rules.on_demand or slot.queue or self._shared
            if slot.phase is _Phase.DOWN and now >= slot.paused_until and wanted:
                slot.phase, slot.began = _Phase.STARTING, now
                self._out.append(StartWorker(slot.name))
        self._feed(now)
        out, self._out = self._out, []
        return out

    def _check_time(self, slot: _Slot[T], now: float) -> None:
        rules = self.rules
        if slot.phase is _Phase.DOWN:
            return
        if slot.phase is _Phase.STARTING and now - slot.began > rules.start_s:
            cause, how = Cause.CRASHED, f"was not ready within {rules.start_s:g} s"
        elif slot.sent and now - slot.first_since > rules.task_s:
            cause, how = Cause.TIMED_OUT, f"took longer than {rules.task_s:g} s"
        elif slot.heard is not None and now - slot.heard > rules.silence_s:
            cause = Cause.SILENT
            how = f"gave no sign of life for {rules.silence_s:g} s and was ended"
        else:
            return
        self._out.append(EndWorker(slot.name))
        self._lose_worker(slot, now, cause, how)

    def _feed(self, now: float) -> None:
        """Send to all workers equally many: the last tasks should not wait behind each other."""
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
        ahead = max(self.rules.ahead, self.rules.quick_ahead if slot.quick else 0)
        return max(0, 1 + ahead - len(slot.sent))

    def _next(self, slot: _Slot[T]) -> _Entry[T] | None:
        """The first task that a slot may be sent now; one that is retried is sent alone."""
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
        if slot.failed_starts < self.rules.most_failed_starts:
            return
        slot.paused_until = now + self.rules.pause_s
        self._out.append(NotStarting(slot.name, how))
        queues = [slot.queue]
        if all(one.paused_until > now for one in self._slots.values()):
            queues.append(self._shared)
        for queue in queues:
            lost = [TaskLost(slot.name, e.task, Cause.NOT_STARTED, how) for e in sorted(queue)]
            self._out += lost
            queue.clear()

    def _vacate(self, slot: _Slot[T]) -> None:
        """The worker is gone; what it was sent waits again, unless it was cancelled."""
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
