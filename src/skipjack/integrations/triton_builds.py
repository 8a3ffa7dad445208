"""Compiling many configs of a Triton kernel at once, before the first of them is launched.

Forked children fill Triton's cache on disk; then the same compilations are made here, where they
find the cache filled.

A hook that is called before a compilation may itself launch kernels, which would wait for ever for
a compilation that is only collected: hooks run outside of `collected_calls`.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from skipjack.core.trial import Status
from skipjack.gpu.triton_compiler import CollectedCalls, can_collect, collected_calls
from skipjack.integrations.forked_jobs import run_jobs
from skipjack.integrations.outcomes import Outcome, failed_build
from skipjack.integrations.tuned_call import TunedCall

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
"""A compilation that takes longer is a hang."""


def build(call: TunedCall, configs: Mapping[str, Any], workers: int) -> dict[str, Outcome]:
    """Compile a call with these configs; gives what became of each.

    A config whose kernel this process holds already compiles nothing. What is raised before it
    comes to compiling is the caller's mistake, and is raised.
    """
    if not can_collect():
        return {text: _build_here(call, config) for text, config in configs.items()}
    outside = contextvars.copy_context()
    numbers: dict[str, int | None] = {}
    with collected_calls() as collected:
        for text, config in configs.items():
            outside.run(call.ready, config)
            numbers[text] = collected.add(partial(call.compile, config))
        # One compilation is no faster elsewhere, but it may crash all the same.
        outcomes = run_jobs(collected.compilations, max(1, workers), TIMEOUT_S)
        outcomes = [_finished(collected, number, one) for number, one in enumerate(outcomes)]
    return {
        text: Outcome() if number is None else outcomes[number] for text, number in numbers.items()
    }


def _finished(collected: CollectedCalls, number: int, outcome: Outcome) -> Outcome:
    try:
        collected.finish(number, "" if outcome.status is Status.OK else outcome.reason)
    except Exception as error:
        log.debug("a compiled kernel cannot be read back", exc_info=True)
        return failed_build(error)
    return outcome


def _build_here(call: TunedCall, config: Any) -> Outcome:
    from triton.errors import TritonError

    call.ready(config)
    try:
        call.compile(config)
    except (TritonError, RuntimeError, OSError, MemoryError) as error:
        return failed_build(error)
    return Outcome()
