"""The processes of a pool: `PoolState` decides what to do, `WorkerPool` does it."""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from skipjack.execute.pool.state import (
    EndWorker,
    Instruction,
    NotStarting,
    PoolLimits,
    PoolState,
    SendTasks,
    StartWorker,
    TaskLost,
)
from skipjack.execute.process import WorkerDiedError, WorkerProcess
from skipjack.execute.wire import Message

log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")
_Task = TypeVar("_Task", contravariant=True)
_Result = TypeVar("_Result", covariant=True)

_LOOK_EVERY_S = 0.25
_MOMENT_S = 0.004
_LAST_WORDS_S = 1.0
"""The time in which a worker that accepts no more requests closes its other pipe, too."""
_LONG_PAUSE_S = 2.0
"""After a longer pause between two steps, the caller was busy and the workers were not silent."""


class TaskCodec(Protocol[_Task, _Result]):
    """How tasks and answers are encoded. A worker sends ``{"ready": true}`` before its first task.

    It may send other messages at any time, as a heartbeat; its answers are in the order of its
    tasks.
    """

    def requests(self, tasks: Sequence[_Task]) -> Iterable[Message]:
        """The messages that make a worker do these tasks."""
        ...

    def answers(self, slot: str, message: Message) -> Iterable[tuple[Message, float]]:
        """The answers in a worker's message, and the seconds each task took; often none."""
        ...

    def result(self, task: _Task, answer: Message) -> _Result:
        """The result of a task; an exception means that this is not an answer to it."""
        ...


@dataclass(frozen=True, slots=True)
class TaskDone(Generic[T, A]):
    """A task and its answer."""

    slot: str
    task: T
    answer: A
    seconds: float


class WorkerPool(Generic[T, A]):
    """Workers in named slots, and the tasks for them. Use as a context manager, from one thread.

    `take` returns each task once, as `TaskDone` or `TaskLost`, unless it was cancelled. Work is
    only done in `step`, `poll` and the methods that submit or take tasks: call one of them often.
    """

    def __init__(
        self,
        slots: Iterable[str],
        start: Callable[[str], WorkerProcess],
        codec: TaskCodec[T, A],
        limits: PoolLimits,
    ) -> None:
        """`start` creates the worker of a slot; if it raises `OSError`, the start has failed."""
        self._names = list(slots)
        self._state: PoolState[T] = PoolState(self._names, limits)
        self._start, self._codec = start, codec
        self._workers: dict[str, WorkerProcess] = {}
        self._out: list[TaskDone[T, A] | TaskLost[T]] = []
        self._not_starting: list[NotStarting] = []
        self._stepped = time.monotonic()

    @property
    def limits(self) -> PoolLimits:
        """The limits of the pool, which may be set at any time."""
        return self._state.limits

    @limits.setter
    def limits(self, limits: PoolLimits) -> None:
        self._state.limits = limits

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running workers by slot."""
        return {name: self._workers[name].pid for name in self._names if name in self._workers}

    @property
    def pending(self) -> int:
        """Tasks that were submitted and not yet returned."""
        return self._state.pending

    @property
    def all_ready(self) -> bool:
        """Whether every slot has a worker that is ready."""
        return all(map(self._state.is_ready, self._names))

    def submit(self, tasks: Iterable[T], slot: str = "") -> None:
        """Queue tasks, for one slot or for any."""
        for task in tasks:
            self._state.submit(task, slot)
        self._follow()

    def withdraw(self) -> list[T]:
        """Take back the tasks that were not sent to a worker, and return them."""
        return self._state.withdraw()

    def cancel(self, unwanted: Callable[[T], bool] = lambda task: True) -> None:
        """Forget tasks; a worker whose current task is one of them is ended.

        They are not returned anymore, so a task that is submitted again has only its new result.
        """
        self._out = [one for one in self._out if not unwanted(one.task)]
        self._state.cancel(unwanted)
        self._follow()

    def take(self) -> list[TaskDone[T, A] | TaskLost[T]]:
        """The tasks that were done or lost since the last call."""
        out, self._out = self._out, []
        return out

    def take_not_starting(self) -> list[NotStarting]:
        """Slots in which workers repeatedly did not start, since the last call."""
        found, self._not_starting = self._not_starting, []
        return found

    def poll(self, timeout_s: float) -> list[TaskDone[T, A] | TaskLost[T]]:
        """Tasks that are done or lost, waiting up to this long for the first."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            self.step(min(max(0.0, left_s), _LOOK_EVERY_S))
            if self._out:
                self._gather()
            if self._out or left_s <= 0:
                return self.take()

    def _gather(self) -> None:
        """Wait briefly for quick workers: callers handle many answers as fast as one."""
        deadline = time.monotonic() + _MOMENT_S
        while self._state.quick and time.monotonic() < deadline:
            time.sleep(_MOMENT_S / 8)
            self.step(0.0)

    def step(self, timeout_s: float = 0.0) -> None:
        """Wait up to this long for a message of a worker, and do what follows from it."""
        pause_s = time.monotonic() - self._stepped
        if pause_s > _LONG_PAUSE_S:
            self._state.add_idle_time(pause_s)
        self._follow()
        full = [worker.requests for worker in self._workers.values() if worker.unsent]
        slots = {worker: slot for slot, worker in self._workers.items()}
        readable, _, _ = select.select(list(slots), full, [], max(0.0, timeout_s))
        for worker in readable:
            self._listen(slots[worker], worker)
        self._state.expire(time.monotonic(), [slots[worker] for worker in readable])
        self._follow()
        for slot, worker in list(self._workers.items()):
            if worker.unsent:
                self._push(slot, worker)
        self._stepped = time.monotonic()

    # Events

    def _listen(self, slot: str, worker: WorkerProcess) -> None:
        try:
            messages = worker.collect()
            self._state.heard(slot, time.monotonic())
            for message in messages:
                self._understand(slot, message)
        except WorkerDiedError as error:
            self._died(slot, error)
        except Exception as error:  # the message was not a valid answer
            self._died(slot, WorkerDiedError(f"sent an invalid answer: {error}"))
        except BaseException:
            # After Ctrl-C in the middle of an answer, the next one could not be decoded.
            self._interrupted(slot)
            raise

    def _understand(self, slot: str, message: Message) -> None:
        if "ready" in message.body:
            self._state.ready(slot, time.monotonic())
        for answer, seconds in self._codec.answers(slot, message):
            task = self._state.current(slot)
            result = self._codec.result(task, answer)
            if self._state.answered(slot, time.monotonic(), seconds):
                self._out.append(TaskDone(slot, task, result, seconds))

    def _died(self, slot: str, error: WorkerDiedError) -> None:
        self._end(slot)
        words = f": {error.words}" if error.words and error.words not in str(error) else ""
        log.debug("the worker of %s %s%s", slot, error, words)
        how = f"{error}{words}"
        self._state.died(slot, time.monotonic(), how, from_outside=error.from_outside)

    # Instructions

    def _follow(self) -> None:
        while instructions := deque(self._state.decide(time.monotonic())):
            try:
                while instructions:
                    self._do(instructions.popleft())
            except BaseException:
                for left in instructions:
                    self._undo(left)
                raise

    def _undo(self, instruction: Instruction[T]) -> None:
        """After Ctrl-C before an instruction: replace its worker, keep tasks and results."""
        if isinstance(instruction, TaskLost | NotStarting):
            self._do(instruction)
        else:
            self._interrupted(instruction.slot)

    def _interrupted(self, slot: str) -> None:
        self._end(slot)
        self._state.interrupted(slot)

    def _do(self, instruction: Instruction[T]) -> None:
        match instruction:
            case StartWorker(slot):
                self._begin(slot)
            case SendTasks(slot, tasks):
                self._send(slot, tasks)
            case EndWorker(slot):
                self._end(slot)
            case TaskLost():
                self._out.append(instruction)
            case NotStarting():
                self._not_starting.append(instruction)

    def _begin(self, slot: str) -> None:
        try:
            self._workers[slot] = self._start(slot)
        except OSError as error:
            how = f"could not be started: {error.strerror or error}"
            self._state.died(slot, time.monotonic(), how)
        except BaseException:
            self._interrupted(slot)
            raise

    def _send(self, slot: str, tasks: Sequence[T]) -> None:
        worker = self._workers[slot]
        try:
            for message in self._codec.requests(tasks):
                worker.post(message.body, message.blobs)
            posted = worker.unsent
            taken = self._push(slot, worker)
        except BaseException:
            self._interrupted(slot)
            raise
        if not taken and worker.unsent == posted:
            # It died before: these tasks did not end it.
            self._state.refused(slot, len(tasks))
            self._read_to_the_end(slot, worker)

    def _push(self, slot: str, worker: WorkerProcess) -> bool:
        """Write as much as the worker takes now; returns whether it still runs."""
        try:
            if worker.alive:
                worker.pump()
                return True
        except WorkerDiedError:
            pass
        log.debug("the worker of %s accepts no tasks; reading how it ended", slot)
        return False

    def _read_to_the_end(self, slot: str, worker: WorkerProcess) -> None:
        """Read the last messages of a process that has ended, and how it ended."""
        while self._workers.get(slot) is worker:
            if select.select([worker], [], [], _LAST_WORDS_S)[0]:
                self._listen(slot, worker)
            else:  # a process that it started keeps the pipe open
                self._died(slot, worker.ended())

    def _end(self, slot: str) -> None:
        worker = self._workers.pop(slot, None)
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End all workers now; their tasks are cancelled.

        Tasks that are submitted afterwards get new workers.
        """
        self._state.cancel(lambda task: True)
        for slot in list(self._workers):
            self._end(slot)
            self._state.interrupted(slot)

    def __enter__(self) -> WorkerPool[T, A]:
        self._follow()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
