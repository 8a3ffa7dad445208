"""How fast kernels that were not measured here are beside the library: a few calls of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter_ns, thread_time
from typing import Any

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.execute.verification import draw_inputs
from skipjack.operations import get
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.library_kernel import CpuLibraryKernel, library_kernel
from skipjack.solvers import vendors_for

_ROUNDS = 12
_SAMPLE_NS = 1_000_000
"""Calls are repeated until a sample takes about this long."""
_SLOW_NS = 50_000_000
"""Of kernels that take longer there are fewer rounds."""
_FEW_ROUNDS = 3
"""After which there is no more of what is far behind, or where the time is up."""
_FAR_BEHIND = 1.5
"""Times the time of the fastest."""


def library_ratios(
    kernels: Sequence[TunedKernel | CpuLibraryKernel], device: Device, seconds: float = inf
) -> tuple[str, list[float]]:
    """The library's name, and its time over each kernel's, called in turns.

    The library is the one that answers where nothing else does. Without one its name is empty, and
    the first kernel stands for it. After `seconds` of this thread there are no more rounds.
    """
    problem = kernels[0].problem
    drawn = draw_inputs(problem, 0)
    inputs = [drawn[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    library = _library(problem, device)
    name = library.solver if library else ""
    calls = [kernel.bind(*inputs) for kernel in kernels]
    if library is not None:
        calls.append(library.bind(*inputs))
    times = least_times(calls, seconds)
    base = times[-1] if library else times[0]
    others = zip(kernels, times, strict=False)
    return name, [1.0 if one.solver == name else round(base / time, 3) for one, time in others]


def _library(problem: Problem, device: Device) -> CpuLibraryKernel | None:
    for solver in vendors_for(problem, device):
        found = library_kernel(solver.name, problem, device)
        if isinstance(found, CpuLibraryKernel):
            return found
    return None


def least_times(calls: Sequence[Callable[[], Any]], seconds: float = inf) -> list[float]:
    """The least time of each in nanoseconds: what disturbs a call makes it longer."""
    until = thread_time() + seconds
    least = [min(_sample_ns(call, 1), _sample_ns(call, 1)) for call in calls]
    counts = [max(1, round(_SAMPLE_NS / took)) for took in least]
    rounds = _ROUNDS if min(least) < _SLOW_NS else _FEW_ROUNDS
    racing = [*range(len(calls))]
    for done in range(rounds):
        if done >= _FEW_ROUNDS and thread_time() > until:
            break
        # Two short calls say little; of long ones they are enough to leave out what is far behind.
        far = _FAR_BEHIND * min(least)
        short = _SAMPLE_NS if done < _FEW_ROUNDS else 0.0
        racing = [at for at in racing if least[at] <= max(far, short)]
        for at in racing:
            least[at] = min(least[at], _sample_ns(calls[at], counts[at]))
    return least


def _sample_ns(call: Callable[[], Any], count: int) -> float:
    began = perf_counter_ns()
    for _ in range(count):
        call()
    return max(1.0, (perf_counter_ns() - began) / count)
