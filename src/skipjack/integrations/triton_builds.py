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
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from skipjack.core.trial import Status
from skipjack.integrations.forked_jobs import Job, run_jobs
from skipjack.integrations.outcomes import Outcome, failed_build

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
"""A compilation that takes longer is a hang."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """One config's."""

    ready: Callable[[], object]
    """Bring arguments into the state that they are compiled for."""
    compile: Callable[[], Any]


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


def build(
    warm_ups: Mapping[T, WarmUp], workers: int, timeout_s: float = TIMEOUT_S
) -> dict[T, Outcome]:
    """Compile what these warm-ups compile; gives what became of each.

    A warm-up of a kernel that this process holds already compiles nothing. What a warm-up raises
    before it comes to compiling is the caller's mistake, and is raised.
    """
    import triton

    if not hasattr(triton, "AsyncCompileMode") or not hasattr(os, "fork"):
        return {name: _build_here(warm_up) for name, warm_up in warm_ups.items()}
    collector, outside = _Collector(), contextvars.copy_context()
    numbers: dict[T, int] = {}
    with triton.AsyncCompileMode(collector, ignore_errors=True):
        try:
            for name, warm_up in warm_ups.items():
                outside.run(warm_up.ready)
                future = getattr(warm_up.compile(), "future", None)
                if future in collector.futures:
                    numbers[name] = collector.futures.index(future)
            outcomes = _run(collector, workers, timeout_s)
        except BaseException as error:
            for future in collector.futures:
                if not future.done():  # leaving the mode would wait for it
                    future.set_exception(error)
            raise
    return {name: outcomes[numbers[name]] if name in numbers else Outcome() for name in warm_ups}


def _run(collector: _Collector, workers: int, timeout_s: float) -> list[Outcome]:
    if len(collector.jobs) == 1 or workers < 1:
        # One compilation is no faster elsewhere, but it may crash all the same.
        workers = 1
    outcomes = run_jobs(collector.jobs, workers, timeout_s)
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


def _build_here(warm_up: WarmUp) -> Outcome:
    from triton.errors import TritonError

    warm_up.ready()
    try:
        warm_up.compile()
    except (TritonError, RuntimeError, OSError, MemoryError) as error:
        return failed_build(error)
    return Outcome()
