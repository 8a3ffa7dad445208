"""A worker of a Ray cluster: the actor on its node, and its queue of tasks in the engine."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import skipjack
from skipjack import processes
from skipjack.errors import SkipjackError
from skipjack.execute import wire
from skipjack.fleet.engines.ray_cluster import ray_module
from skipjack.fleet.host import detect_host
from skipjack.fleet.model import (
    Done,
    JobStage,
    RunningLog,
    Slot,
    Task,
    TaskOutcome,
    pack_batch,
    unpack_batch,
)
from skipjack.fleet.work import (
    HEARTBEAT_S,
    lower_priority,
    named,
    open_worker_log,
    run_message,
    running_log,
)
from skipjack.settings import load_settings

# The code that runs on the nodes of a Ray cluster: a worker, and the description of the node.
#
# Tasks and outcomes travel as frames (`execute.wire`), many in one call. `answers` waits for
# finished tasks; its return is also the heartbeat of the process.

LINGER_S = 0.02
"""Time for which answers are collected while a worker has more to do."""
GROUPS = {"work": 1, "answers": 1, "orders": 1}
"""Threads of an actor: one for tasks, and two that are always responsive."""
METHODS = {"hello": "work", "work": "work", "answers": "answers", "skip": "orders"}
"""The thread of each method."""


class WorkerActor:
    """A worker on a node. `factory` is ``module:function``, with the contract of `make_worker`."""

    def __init__(
        self,
        slot: str,
        stage: str,
        factory: str,
        cores: Sequence[int],
        environment: Mapping[str, str],
    ) -> None:
        self._slot, self._stage, self._factory = slot, JobStage(stage), factory
        self._cores = tuple(cores)
        os.environ.update(environment)
        self._news = threading.Condition()
        self._done: list[tuple[int, float, TaskOutcome]] = []
        self._skipped: set[int] = set()
        self._to_do = 0
        self._said: RunningLog | None = None

    def hello(self) -> bytes:
        """Make the worker in the thread that will use it: its children end with that thread."""
        if self._stage is JobStage.BUILD:
            lower_priority()
        else:
            with contextlib.suppress(PermissionError):
                os.setpriority(
                    os.PRIO_PROCESS, 0, 0
                )  # Ray lowers the priority of its workers by default
        settings = load_settings()
        open_worker_log(settings.user_dir, self._slot.replace("/", "-"), settings.log_level)
        self._user_dir = settings.user_dir
        gpu = _assigned_gpu()
        self._worker = named(self._factory)(self._stage, cores=self._cores, gpu=gpu)
        pid = os.getpid()
        return json.dumps(
            {"pid": pid, "born": processes.began(pid), "gpu": gpu, "nice": os.nice(0)}
        ).encode()

    def work(self, tickets: Sequence[int], batch: bytes) -> None:
        """Do the tasks of a batch in order."""
        answer = wire.receive(io.BytesIO(batch).read)
        messages = unpack_batch(answer) if answer else []
        with self._news:
            self._to_do += len(messages)
        for ticket, message in zip(tickets, messages, strict=True):
            self._do(ticket, message)

    def _do(self, ticket: int, message: wire.Message) -> None:
        began = time.monotonic()
        skipped = ticket in self._skipped
        outcome = None if skipped else run_message(self._worker, message, self._user_dir)
        with self._news:
            self._skipped.discard(ticket)
            self._to_do -= 1
            if outcome:
                self._done.append((ticket, time.monotonic() - began, outcome))
            # The waiting thread is woken for the first answer, and for the last of a batch.
            if len(self._done) == 1 or not self._to_do:
                self._news.notify()

    def answers(self, wait_s: float) -> bytes:
        """Outcomes since the last call, as a batch, with the log of the running task; no bytes if
        there are none within this time.
        """
        ends = time.monotonic() + wait_s
        said = None
        with self._news:
            while not self._done and not said and (left_s := ends - time.monotonic()) > 0:
                self._news.wait_for(lambda: self._done, min(left_s, HEARTBEAT_S))
                said = self._new_words()
            if self._done:
                self._news.wait_for(lambda: not self._to_do, LINGER_S)
            done, self._done = self._done, []
        if not done and not said:
            return b""
        answer = pack_batch(
            [outcome.message() for _, _, outcome in done],
            tickets=[ticket for ticket, _, _ in done],
            seconds=[seconds for _, seconds, _ in done],
            said=asdict(said) if said else None,
        )
        return wire.encode(answer.body, answer.blobs)

    def _new_words(self) -> RunningLog | None:
        said = running_log()
        if said == self._said:
            return None
        self._said = said
        return said

    def skip(self, tickets: Sequence[int]) -> None:
        self._skipped.update(tickets)


def actor_class() -> Any:
    """`WorkerActor` as a Ray actor class."""
    ray = ray_module()
    for method, group in METHODS.items():
        ray.method(concurrency_group=group)(getattr(WorkerActor, method))
    # We restart the process, not Ray: only we know which tasks were lost with it.
    options = ray.remote(concurrency_groups=GROUPS, max_restarts=0, max_task_retries=0)
    return options(WorkerActor)


def _assigned_gpu() -> str:
    return ",".join(ray_module().get_runtime_context().get_accelerator_ids().get("GPU", []))


def end_process(pid: int, began: str) -> None:
    """Runs on an actor's node: end a stopped process, which cannot end itself."""
    if began and processes.began(pid) == began:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def describe_node(name: str) -> bytes:
    """Runs on a node: describe it and its version of Skipjack. No name: its host name."""
    host = detect_host(name or None)
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    record: dict[str, Any] = {**asdict(host), "version": skipjack.__version__, "usable": usable}
    return json.dumps(record).encode()


# A worker of a Ray cluster as the engine sees it, with its queue of tasks.


@dataclass(slots=True)
class QueuedTask:
    """A task in the queue of a worker."""

    ticket: int
    task: Task


@dataclass(slots=True)
class RayWorker:
    """A slot and its queue: tasks stay in the queue until their outcomes arrive."""

    slot: Slot
    life: int
    pid: int
    up: bool = True
    queue: deque[QueuedTask] = field(default_factory=deque)
    down_since: float = 0.0
    """When it went down; 0 if it is up."""
    one_at_a_time: bool = False
    """Send one task at a time: one of the tasks may have ended the worker before."""
    said: RunningLog | None = None
    """The last log of its running task, if it was not taken yet."""

    def withdraw(self, jobs: Collection[int]) -> tuple[list[int], bool]:
        """Remove these jobs; their tickets, and whether one of them is running."""
        queue = [queued for queued in self.queue if queued.task.job in jobs]
        at_it = bool(queue) and self.queue[0] is queue[0]
        self.queue = deque(queued for queued in self.queue if queued not in queue)
        return [queued.ticket for queued in queue], at_it

    def mark_down(self) -> None:
        """Note that its worker is gone, or about to be ended."""
        self.up, self.down_since = False, time.monotonic()

    def lose_first(self, reason: str) -> Done:
        """Remove the running task, which is lost with the worker."""
        return self._lost(self.queue.popleft(), reason)

    def give_up(self, reason: str) -> list[Done]:
        """Remove all tasks as lost."""
        lost = [self._lost(queued, reason) for queued in self.queue]
        self.queue.clear()
        return lost

    def answered(self, answers: bytes) -> list[Done]:
        """The ended tasks in an answer of the worker; cancelled ones are left out."""
        answer = wire.receive(io.BytesIO(answers).read)
        if answer is None:
            return []
        if said := answer.body.get("said"):
            self.said = RunningLog(**said)
        queue = {queued.ticket: queued for queued in self.queue}
        reports = zip(
            answer.body["tickets"], answer.body["seconds"], unpack_batch(answer), strict=True
        )
        done = []
        for ticket, seconds, message in reports:
            queued = queue.get(ticket)
            if queued is None:
                continue
            self.queue.remove(queued)
            done.append(self._done(queued, message, seconds))
        return done

    def take_logs(self) -> list[RunningLog]:
        """The log of its running task, if it has grown since the last call."""
        said, self.said = self.said, None
        return [said] if said else []

    def _done(self, queued: QueuedTask, message: wire.Message, seconds: float) -> Done:
        try:
            outcome = TaskOutcome.of(message)
        except SkipjackError as error:
            return self._lost(queued, str(error))
        task = queued.task
        return Done(self.slot.name, task.job, outcome, attempt=task.attempt, seconds=seconds)

    def _lost(self, queued: QueuedTask, reason: str) -> Done:
        task = queued.task
        return Done(self.slot.name, task.job, lost=reason, attempt=task.attempt)


def batch_of(queue: Sequence[QueuedTask]) -> bytes:
    """Tasks in the form that `WorkerActor.work` reads."""
    answer = pack_batch([queued.task.message() for queued in queue])
    return wire.encode(answer.body, answer.blobs)
