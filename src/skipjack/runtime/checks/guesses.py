"""The fastest of several untuned configs on this CPU, each timed against the library."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter_ns, thread_time
from typing import Any

import numpy as np

from skipjack.core import Candidate, Config, Device, Problem, digest_of
from skipjack.errors import SkipjackError, StorageError
from skipjack.execute import draw_inputs
from skipjack.native import own_build_identity, own_code
from skipjack.operations import comes_with_skipjack, get
from skipjack.runtime.checks.background import check_in_background
from skipjack.runtime.checks.verified_code import (
    KernelVerifier,
    UnusableEntryError,
    candidate_code,
    reason_of,
)
from skipjack.runtime.local_kernels import (
    CpuLibraryKernel,
    KernelCode,
    TimedConfigs,
    TunedKernel,
    UntunedConfig,
    find_timed_configs,
    keep_timed_configs,
    library_kernel,
)
from skipjack.runtime.process import warn_once
from skipjack.settings import Settings
from skipjack.solvers import (
    BuildingSolver,
    build_identity,
    building_solvers,
    find_solver,
    only_built_in,
    vendors_for,
)

# How fast unmeasured kernels are compared with the library, by a few calls of each.

_ROUNDS = 12
_SAMPLE_NS = 1_000_000
"""Calls are repeated until a sample takes about this long."""
_SLOW_NS = 50_000_000
"""Kernels that take longer get fewer rounds."""
_FEW_ROUNDS = 3
"""Rounds after which slow kernels are dropped, and the time limit applies."""
_FAR_BEHIND = 1.5
"""A kernel is slow if it takes this many times as long as the fastest."""


def library_ratios(
    kernels: Sequence[TunedKernel | CpuLibraryKernel], device: Device, seconds: float = inf
) -> tuple[str, list[float]]:
    """The library's name, and its time divided by each kernel's, called in turn.

    The library is the last step of a lookup. Without one, its name is empty and the first kernel
    is the baseline. After `seconds` of this thread's time there are no more rounds.
    """
    problem = kernels[0].problem
    drawn = draw_inputs(problem, 0)
    inputs = [drawn[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    library = _first_library(problem, device)
    name = library.solver if library else ""
    calls = [kernel.bind(*inputs) for kernel in kernels]
    if library is not None:
        calls.append(library.bind(*inputs))
    times = least_times(calls, seconds)
    base = times[-1] if library else times[0]
    others = zip(kernels, times, strict=False)
    return name, [1.0 if one.solver == name else round(base / time, 3) for one, time in others]


def _first_library(problem: Problem, device: Device) -> CpuLibraryKernel | None:
    for solver in vendors_for(problem, device):
        found = library_kernel(solver.name, problem, device)
        if isinstance(found, CpuLibraryKernel):
            return found
    return None


def least_times(calls: Sequence[Callable[[], Any]], seconds: float = inf) -> list[float]:
    """The minimum time of each in nanoseconds, since disturbances only make calls longer."""
    until = thread_time() + seconds
    least = [min(_sample_ns(call, 1), _sample_ns(call, 1)) for call in calls]
    counts = [max(1, round(_SAMPLE_NS / took)) for took in least]
    rounds = _ROUNDS if min(least) < _SLOW_NS else _FEW_ROUNDS
    racing = [*range(len(calls))]
    for done in range(rounds):
        if done >= _FEW_ROUNDS and thread_time() > until:
            break
        # Two calls are enough to drop long, slow kernels, but not short ones.
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


# The fastest of several guesses on this CPU, for problems that were never measured.
#
# Each is built and verified, and all are timed against the library, once and within a time limit.
# The results are kept in the kernel cache, so other processes need not even ask for guesses.

log = logging.getLogger(__name__)

_FIRST_S, _BUILD_S, _TIME_S = 1.0, 0.35, 0.15
"""Limits of this thread's time: for the first guess if others are to follow, for building and
verifying those, and for timing. There are always a few rounds."""


@dataclass(frozen=True, slots=True)
class FastestConfig:
    """The results, with the machine code of the fastest guess unless that is a library."""

    timed: TimedConfigs
    code: KernelCode | None = None


def fastest_config(
    problem: Problem,
    device: Device,
    settings: Settings,
    depends: Sequence[object],
    guesses: Callable[[], Iterable[UntunedConfig]],
    patience_s: float | None,
) -> FastestConfig:
    """The fastest of some guesses on this CPU; of those about as fast, the first.

    `depends` are values on which the guesses depend, besides the solvers; `guesses` is called only
    if the result is not known. If timing takes longer than `patience_s`, it continues in the
    background: `StillCheckingError`. With None, the call waits.
    """
    key = digest_of([problem.key, _identity(problem, device), np.__version__, *depends])
    known = find_timed_configs(settings, key)
    if known is not None:
        best = known.fastest
        if best is None or not known.artifact:
            return FastestConfig(known)
        with suppress(UnusableEntryError):  # its code was removed and cannot be built again
            candidate = Candidate(problem, best.solver, Config(best.config))
            code = candidate_code(candidate, device, settings, patience_s=patience_s)
            return FastestConfig(known, code)
    work = functools.partial(_timed, problem, device, settings, key, guesses)
    return work() if patience_s is None else check_in_background(f"guesses {key}", work, patience_s)


def _identity(problem: Problem, device: Device) -> str:
    """The identity of everything that may be proposed, and of the code built from it."""
    if comes_with_skipjack(problem.operation) and only_built_in():
        return own_build_identity(problem.key, "", device)
    able = building_solvers(problem, device)
    return digest_of([build_identity(problem, solver, device) for solver in able])


def _timed(
    problem: Problem,
    device: Device,
    settings: Settings,
    key: str,
    guesses: Callable[[], Iterable[UntunedConfig]],
) -> FastestConfig:
    began, until = thread_time(), inf
    verifier = KernelVerifier(problem, device.memory_bytes)
    told: list[UntunedConfig] = []
    kernels: dict[int, TunedKernel | CpuLibraryKernel] = {}
    codes: dict[int, KernelCode] = {}
    for guess in guesses():
        now = thread_time()
        if codes and until == inf:
            until = now + _BUILD_S if now - began < _FIRST_S else now
        if now >= until:
            break
        if any((guess.solver, guess.config) == (one.solver, one.config) for one in told):
            continue
        at = len(told)
        told.append(guess)
        if not guess.solver:
            continue
        try:
            if not isinstance(find_solver(guess.solver), BuildingSolver):
                kernels[at] = _library(guess, problem, device)
                continue
            candidate = Candidate(problem, guess.solver, Config(guess.config))
            code = candidate_code(candidate, device, settings, whose="the", verifier=verifier)
            kernels[at] = TunedKernel(problem, code, solver=guess.solver)
            codes[at] = code
        except Exception as error:  # a solver may raise anything
            told[at] = replace(guess, fault=reason_of(error))
    if not kernels:
        return FastestConfig(TimedConfigs("", tuple(told)))
    library, ratios = library_ratios([*kernels.values()], device, _TIME_S)
    for at, ratio in zip(kernels, ratios, strict=True):
        told[at] = replace(told[at], ratio=ratio)
    timed = TimedConfigs(library, tuple(told), code=own_code())
    best = timed.fastest
    chosen = codes.get(told.index(best)) if best is not None else None
    timed = replace(timed, artifact=chosen.digest if chosen else "")
    try:
        keep_timed_configs(settings, key, timed)
    except StorageError as error:
        said = f"times cannot be stored, so every program times guesses: {error}"
        warn_once(log, said, about=("guesses", settings.kernel_dirs[0]))
    return FastestConfig(timed, chosen)


def _library(guess: UntunedConfig, problem: Problem, device: Device) -> CpuLibraryKernel:
    kernel = library_kernel(guess.solver, problem, device)
    if not isinstance(kernel, CpuLibraryKernel):
        raise SkipjackError(f"{guess.solver} cannot be called from Python")
    return kernel
