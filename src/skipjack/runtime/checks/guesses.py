"""Which of some guesses is the fastest on this CPU, where nobody measured the problem.

Each is built and verified, and all are timed beside the library, once and within a bound. What came
out is kept in the kernel cache, so that other processes need not even ask what there is to guess.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from time import thread_time

import numpy as np

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.digest import digest_of
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate
from skipjack.errors import SkipjackError, StorageError
from skipjack.native.own_code import own_code, own_identity
from skipjack.operations import comes_with_skipjack
from skipjack.runtime.checks.beside import checked_beside
from skipjack.runtime.checks.beside_library import library_ratios
from skipjack.runtime.checks.entry_code import UselessEntryError, candidate_code, reason_of
from skipjack.runtime.checks.guess_records import (
    Guess,
    TimedGuesses,
    find_guesses,
    keep_guesses,
)
from skipjack.runtime.checks.on_cpu import KernelVerifier
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import KernelCode
from skipjack.runtime.library_kernel import CpuLibraryKernel, library_kernel
from skipjack.runtime.warning_once import warn_once
from skipjack.settings import Settings
from skipjack.solvers import (
    BuildingSolver,
    build_identity,
    building_solvers,
    find_solver,
    only_built_in,
)

log = logging.getLogger(__name__)

_FIRST_S, _BUILD_S, _TIME_S = 1.0, 0.35, 0.15
"""Of this thread's time: what the first guess may take if there are to be others, what building and
verifying those may take, and what timing may take. There are always a few rounds."""


@dataclass(frozen=True, slots=True)
class FastestGuess:
    """The outcome, with the machine code of the fastest guess if that is not a library's."""

    timed: TimedGuesses
    code: KernelCode | None = None


def fastest_guess(
    problem: Problem,
    device: Device,
    settings: Settings,
    depends: Sequence[object],
    guesses: Callable[[], Iterable[Guess]],
    patience_s: float | None,
) -> FastestGuess:
    """The fastest of some guesses on this CPU, the first of those that are about as fast.

    `depends` are values that say what there is to guess besides what solvers propose; `guesses` is
    called only if the outcome is not known. Where finding it out takes longer than `patience_s`, it
    goes on beside the program: `StillCheckingError`. None waits.
    """
    key = digest_of([problem.key, _identity(problem, device), np.__version__, *depends])
    known = find_guesses(settings, key)
    if known is not None:
        best = known.fastest
        if best is None or not known.artifact:
            return FastestGuess(known)
        with suppress(UselessEntryError):  # it was removed, and cannot be built any more
            candidate = Candidate(problem, best.solver, Config(best.config))
            code = candidate_code(candidate, device, settings, patience_s=patience_s)
            return FastestGuess(known, code)
    work = functools.partial(_timed, problem, device, settings, key, guesses)
    return work() if patience_s is None else checked_beside(f"guesses {key}", work, patience_s)


def _identity(problem: Problem, device: Device) -> str:
    """Of all that may be proposed, and of what it is built to."""
    if comes_with_skipjack(problem.operation) and only_built_in():
        return own_identity(problem.key, "", device)
    able = building_solvers(problem, device)
    return digest_of([build_identity(problem, solver, device) for solver in able])


def _timed(
    problem: Problem,
    device: Device,
    settings: Settings,
    key: str,
    guesses: Callable[[], Iterable[Guess]],
) -> FastestGuess:
    began, until = thread_time(), inf
    verifier = KernelVerifier(problem, device.memory_bytes)
    told: list[Guess] = []
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
        return FastestGuess(TimedGuesses("", tuple(told)))
    library, ratios = library_ratios([*kernels.values()], device, _TIME_S)
    for at, ratio in zip(kernels, ratios, strict=True):
        told[at] = replace(told[at], ratio=ratio)
    timed = TimedGuesses(library, tuple(told), code=own_code())
    best = timed.fastest
    chosen = codes.get(told.index(best)) if best is not None else None
    timed = replace(timed, artifact=chosen.digest if chosen else "")
    try:
        keep_guesses(settings, key, timed)
    except StorageError as error:
        said = f"what was timed is not kept, so that every program times guesses: {error}"
        warn_once(log, said, about=("guesses", settings.kernel_dirs[0]))
    return FastestGuess(timed, chosen)


def _library(guess: Guess, problem: Problem, device: Device) -> CpuLibraryKernel:
    kernel = library_kernel(guess.solver, problem, device)
    if not isinstance(kernel, CpuLibraryKernel):
        raise SkipjackError(f"{guess.solver} is not called from Python")
    return kernel
