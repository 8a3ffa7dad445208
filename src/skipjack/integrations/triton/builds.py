"""Compiling many configs of a Triton kernel in parallel, in forked processes."""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, BinaryIO

from skipjack.core import Status
from skipjack.execute import ForkedWorker, wire
from skipjack.execute.pool import Cause, PoolLimits, TaskDone, TaskLost, WorkerPool
from skipjack.gpu import CollectedCalls, can_collect, collected_calls
from skipjack.integrations.triton.tuned_call import ConfigOutcome, TunedCall, failed_build

# Calls in forked children, where a compiler may crash or hang without harm.
#
# A child is a copy of this process and inherits the calls, including their closures. It makes many
# calls, because forking a process with a large memory takes milliseconds.

Job = Callable[[], object]


def run_jobs(jobs: Sequence[Job], workers: int, timeout_s: float) -> list[ConfigOutcome]:
    """Make all calls, in parallel workers and with a timeout for each; returns their outcomes."""
    found: dict[int, ConfigOutcome] = {}
    pool: WorkerPool[int, ConfigOutcome] = WorkerPool(
        [f"compile-{number}" for number in range(1, min(workers, len(jobs)) + 1)],
        lambda slot: ForkedWorker("compile", lambda *pipes: _serve(jobs, *pipes)),
        _Calls(),
        PoolLimits(task_s=timeout_s, second_chance=True, on_demand=True),
    )
    with pool:
        pool.submit(range(len(jobs)))
        while pool.pending:
            found |= {one.task: _outcome_of(one) for one in pool.poll(timeout_s)}
        found |= {one.task: _outcome_of(one) for one in pool.take()}
    return [found[number] for number in range(len(jobs))]


class _Calls:
    """Requests and answers of the workers: a call is identified by its number."""

    def requests(self, tasks: Sequence[int]) -> Iterable[wire.Message]:
        return [wire.Message({"call": number}) for number in tasks]

    def answers(self, slot: str, message: wire.Message) -> Iterable[tuple[wire.Message, float]]:
        return [(message, message.body["seconds"])] if "status" in message.body else []

    def result(self, task: int, answer: wire.Message) -> ConfigOutcome:
        return ConfigOutcome(**{**answer.body, "status": Status(answer.body["status"])})


def _serve(jobs: Sequence[Job], requests: BinaryIO, answers: BinaryIO) -> None:
    """In the child: make the requested calls until the parent closes the pipe."""
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        started = time.monotonic()
        outcome = ConfigOutcome()
        try:
            jobs[message.body["call"]]()
        except BaseException as error:  # a compiler may fail in any way
            outcome = failed_build(error)
        wire.send(answers, asdict(replace(outcome, seconds=time.monotonic() - started)))


def _outcome_of(one: TaskDone[int, ConfigOutcome] | TaskLost[int]) -> ConfigOutcome:
    if isinstance(one, TaskDone):
        return one.answer
    status = {Cause.TIMED_OUT: Status.BUILD_TIMEOUT, Cause.NOT_STARTED: Status.ERROR}
    return ConfigOutcome(
        status.get(one.cause, Status.BUILD_CRASH), f"the compiler {one.how}", one.seconds
    )


# Compiling many configs of a Triton kernel in parallel, before the first of them is launched.
#
# Forked children fill Triton's cache on disk; then the same compilations are repeated here with the
# filled cache.
#
# A hook that is called before a compilation may itself launch kernels, which would wait forever for
# a compilation that is only collected: hooks run outside `collected_calls`.

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
"""A compilation that takes longer counts as hung."""


def build(call: TunedCall, configs: Mapping[str, Any], workers: int) -> dict[str, ConfigOutcome]:
    """Compile a call with these configs; returns the outcome of each.

    Kernels that this process has already are not compiled. Errors before the compilation are the
    caller's, and are raised.
    """
    if not can_collect():
        return {text: _build_here(call, config) for text, config in configs.items()}
    outside = contextvars.copy_context()
    numbers: dict[str, int | None] = {}
    with collected_calls() as collected:
        for text, config in configs.items():
            outside.run(call.ready, config)
            numbers[text] = collected.add(partial(call.compile, config))
        # Even a single compilation may crash, so it runs in a child, too.
        outcomes = run_jobs(collected.compilations, max(1, workers), TIMEOUT_S)
        outcomes = [_finished(collected, number, one) for number, one in enumerate(outcomes)]
    return {
        text: ConfigOutcome() if number is None else outcomes[number]
        for text, number in numbers.items()
    }


def _finished(collected: CollectedCalls, number: int, outcome: ConfigOutcome) -> ConfigOutcome:
    try:
        collected.finish(number, "" if outcome.status is Status.OK else outcome.reason)
    except Exception as error:
        log.debug("a compiled kernel cannot be read back", exc_info=True)
        return failed_build(error)
    return outcome


def _build_here(call: TunedCall, config: Any) -> ConfigOutcome:
    from triton.errors import TritonError

    call.ready(config)
    try:
        call.compile(config)
    except (TritonError, RuntimeError, OSError, MemoryError) as error:
        return failed_build(error)
    return ConfigOutcome()
