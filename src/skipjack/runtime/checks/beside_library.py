"""Whether a kernel that was not measured here keeps up with the library: a few calls of each."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from skipjack.core.device import Device
from skipjack.execute.verification import draw_inputs
from skipjack.operations import get
from skipjack.runtime.kernel import TunedKernel
from skipjack.solvers import vendors_for

_ROUNDS = 12
_SAMPLE_NS = 1_000_000
"""Calls are repeated until a sample takes about this long."""
_SLOW_NS = 50_000_000
"""Of kernels that take longer there are fewer rounds."""
_SLOW_ROUNDS = 3


def library_ratio(kernel: TunedKernel, device: Device) -> float:
    """The time of the library over that of the kernel, called in turns; 1 without a library.

    The library is the one that answers where nothing else does.
    """
    from skipjack.runtime.library_kernel import library_kernel

    problem = kernel.problem
    drawn = draw_inputs(problem, 0)
    inputs = [drawn[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    for solver in vendors_for(problem, device):
        library = library_kernel(solver.name, problem, device)
        if library is not None:
            return round(_ratio(kernel.bind(*inputs), library.bind(*inputs)), 3)
    return 1.0


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """The least time of the second over that of the first: what disturbs a call makes it longer."""
    calls = (ours, theirs)
    once = [min(_sample_ns(call, 1), _sample_ns(call, 1)) for call in calls]
    counts = [max(1, round(_SAMPLE_NS / max(1.0, took))) for took in once]
    rounds = _ROUNDS if max(once) < _SLOW_NS else _SLOW_ROUNDS
    samples: list[list[float]] = [[], []]
    for _ in range(rounds):
        for call, count, taken in zip(calls, counts, samples, strict=True):
            taken.append(_sample_ns(call, count))
    mine, other = map(min, samples)
    return other / max(1.0, mine)


def _sample_ns(call: Callable[[], Any], count: int) -> float:
    began = perf_counter_ns()
    for _ in range(count):
        call()
    return (perf_counter_ns() - began) / count
