"""Compiling many configs of a Triton kernel at once, before the first of them is launched.

Triton itself says what each config compiles: under `triton.AsyncCompileMode` a warm-up hands the
compilation to an executor. Ours collects them, lets forked children fill Triton's cache on disk,
and then makes the same calls here, where they find the cache filled.

A hook that is called before a compilation may itself launch kernels, which would wait for ever for
an executor that only collects: hooks run outside of that mode.
"""

from __future__ import annotations

import contextvars
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from skipjack.core.trial import Status
from skipjack.integrations.forked_jobs import Job, run_jobs
from skipjack.integrations.outcomes import Outcome, failed_build
from skipjack.integrations.tuned_call import TunedCall

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
"""A compilation that takes longer is a hang."""


class _Collector(Executor):
    """Keeps what it is given to do."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Nothing runs yet."""
        self.jobs.append(lambda: fn(*args, **kwargs))
        self.futures.append(Future())
        return self.futures[-1]


def build(call: TunedCall, configs: Mapping[str, Any], workers: int) -> dict[str, Outcome]:
    """Compile a call with these configs; gives what became of each.

    A config whose kernel this process holds already compiles nothing. What a warm-up raises before
    it comes to compiling is the caller's mistake, and is raised.
    """
    import triton

    if not hasattr(triton, "AsyncCompileMode") or not hasattr(os, "fork"):
        return {text: _build_here(call, config) for text, config in configs.items()}
    collector, outside = _Collector(), contextvars.copy_context()
    numbers: dict[str, int] = {}
    with triton.AsyncCompileMode(collector, ignore_errors=True):
        try:
            for text, config in configs.items():
                outside.run(call.ready, config)
                future = getattr(call.warm_up(config), "future", None)
                if future in collector.futures:
                    numbers[text] = collector.futures.index(future)
            # One compilation is no faster elsewhere, but it may crash all the same.
            outcomes = _run(collector, max(1, workers))
        except BaseException as error:
            for future in collector.futures:
                if not future.done():  # leaving the mode would wait for it
                    future.set_exception(error)
            raise
    return {text: outcomes[numbers[text]] if text in numbers else Outcome() for text in configs}


def _run(collector: _Collector, workers: int) -> list[Outcome]:
    outcomes = run_jobs(collector.jobs, workers, TIMEOUT_S)
    for number, (job, future) in enumerate(zip(collector.jobs, collector.futures, strict=True)):
        outcome = outcomes[number]
        if outcome.status is not Status.OK:
            future.set_exception(RuntimeError(outcome.reason))
            continue
        try:
            future.set_result(job())
        except Exception as error:
            log.debug("a compiled kernel cannot be read back", exc_info=True)
            outcomes[number] = failed_build(error)
            future.set_exception(error)
    return outcomes


def _build_here(call: TunedCall, config: Any) -> Outcome:
    from triton.errors import TritonError

    call.ready(config)
    try:
        call.warm_up(config)
    except (TritonError, RuntimeError, OSError, MemoryError) as error:
        return failed_build(error)
    return Outcome()
