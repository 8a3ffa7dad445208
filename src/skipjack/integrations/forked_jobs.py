"""Calls that are made in forked children, so that a compiler may crash or hang in one of them.

A child is a copy of this process and inherits the calls, whatever they close over. It serves many
calls, because forking a process with a large memory takes milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import BinaryIO

from skipjack.core.trial import Status
from skipjack.execute import wire
from skipjack.execute.pool import Cause, ForkedWorker, PoolRules, TaskDone, TaskLost, WorkerPool
from skipjack.integrations.outcomes import Outcome, failed_build

Job = Callable[[], object]


def run_jobs(jobs: Sequence[Job], workers: int, timeout_s: float) -> list[Outcome]:
    """Make all calls, so many at once; each has this long. Gives what became of each, in order."""
    found: dict[int, Outcome] = {}
    pool: WorkerPool[int, Outcome] = WorkerPool(
        [f"compile-{number}" for number in range(1, min(workers, len(jobs)) + 1)],
        lambda slot: ForkedWorker("compile", lambda *pipes: _serve(jobs, *pipes)),
        _Calls(),
        PoolRules(task_s=timeout_s, second_chance=True, on_demand=True),
    )
    with pool:
        pool.submit(range(len(jobs)))
        while pool.pending:
            found |= {one.task: _outcome_of(one) for one in pool.poll(timeout_s)}
        found |= {one.task: _outcome_of(one) for one in pool.take()}
    return [found[number] for number in range(len(jobs))]


class _Calls:
    """A call is told by its number."""

    def requests(self, tasks: Sequence[int]) -> Iterable[wire.Message]:
        return [wire.Message({"call": number}) for number in tasks]

    def answers(self, slot: str, message: wire.Message) -> Iterable[tuple[wire.Message, float]]:
        return [(message, message.body["seconds"])] if "status" in message.body else []

    def result(self, task: int, answer: wire.Message) -> Outcome:
        return Outcome(**{**answer.body, "status": Status(answer.body["status"])})


def _serve(jobs: Sequence[Job], requests: BinaryIO, answers: BinaryIO) -> None:
    """In the child: make the calls that are asked for until the parent closes the pipe."""
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        started = time.monotonic()
        outcome = Outcome()
        try:
            jobs[message.body["call"]]()
        except BaseException as error:  # a compiler may fail in any way
            outcome = failed_build(error)
        wire.send(answers, asdict(replace(outcome, seconds=time.monotonic() - started)))


def _outcome_of(one: TaskDone[int, Outcome] | TaskLost[int]) -> Outcome:
    if isinstance(one, TaskDone):
        return one.answer
    status = {Cause.TIMED_OUT: Status.BUILD_TIMEOUT, Cause.NOT_STARTED: Status.ERROR}
    return Outcome(
        status.get(one.cause, Status.BUILD_CRASH), f"the compiler {one.how}", one.seconds
    )
