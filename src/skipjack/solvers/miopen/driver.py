"""Runs MIOpenDriver for one problem: validates its results, and reports what went wrong.

Kernels are read from the cache only on request: a search compiles thousands that are not needed
again. The caller supplies a function that runs an `Invocation` and returns a `Finished`, so that
tests need no process.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from skipjack.core import Problem
from skipjack.errors import WorkerError
from skipjack.interop.miopen import FindResultLine, find_key, find_results, perf_key
from skipjack.reading import numbered
from skipjack.solvers.miopen import results
from skipjack.solvers.miopen.environment import SET_VARIABLES, WorkerFolders, variables
from skipjack.solvers.miopen.results import (
    DriverOutput,
    Installation,
    KernelName,
    ProblemRecords,
    believable,
    believable_record,
    read_output,
)
from skipjack.solvers.miopen.solver import (
    ITERATIONS,
    PROBE,
    Mode,
    driver_arguments,
    timing_arguments,
)

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 600.0
"""The very first run may compile a few kernels."""
NO_RECORDS = ProblemRecords()
_LONGEST = 300
_LOGGED = 400
"""Number of lines of output that are logged, from the end; a search prints very many."""


class DriverError(WorkerError):
    """A run of MIOpenDriver without a result; the message says why."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A run of the program."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    output: Path
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run."""

    text: str
    """Its output."""
    trouble: str = ""
    """How it ended, unless with status 0: ``ended with exit code 3``."""


RunDriver = Callable[[Invocation], Finished]


@dataclass(frozen=True, slots=True)
class DriverSetup:
    """The program, its GPU and the folders of its worker."""

    driver: Path
    place: WorkerFolders
    gpu: str
    """The GPU, as ``hip:0``."""
    device: str
    """The expected device, as ``gfx908/120``."""
    run: RunDriver
    timeout_s: float
    iterations: int = ITERATIONS


@dataclass(frozen=True, slots=True)
class SolverTime:
    """A solver with its time."""

    solver: str
    time_ms: float | None
    """None if there is no valid time."""
    workspace_bytes: int
    algorithm: str
    params: str = ""
    """Its parameters in the perf-db; empty if there are none."""
    verified: bool = False
    """Whether MIOpenDriver checked its result, which it does for the solver that it runs."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class DriverResult:
    """The result for a problem."""

    entries: tuple[SolverTime, ...]
    """The fastest first, those without a time last."""
    problem_records: ProblemRecords
    installation: Installation
    code: Mapping[str, bytes]
    """The code of the kernels by digest, if kernels were requested."""
    runs: int
    seconds: float
    invalid_times: int = 0
    """Number of times that were zero or negative."""


def probe(bench: DriverSetup) -> Installation:
    """The MIOpen version and device; `DriverError` if it is not the expected device."""
    bench.place.prepare(Mode.FIND)
    output = _checked(_run(bench, Mode.FIND, PROBE, "fwd", PROBE_TIMEOUT_S))
    found = results.installation_of(bench.place)
    if found is None:
        _fail(output, f"it wrote no find-db in {bench.place.user_db}, so its version is unknown")
    if found.device != bench.device:
        raise DriverError(
            f"{bench.driver} runs on {found.device} as GPU {bench.gpu}, not on {bench.device}"
        )
    return found


def drive(
    bench: DriverSetup,
    problem: Problem,
    mode: Mode,
    installation: Installation,
    known: ProblemRecords = NO_RECORDS,
) -> DriverResult:
    """Let MIOpen search, find or compile; `known` are earlier records of this problem."""
    started = time.monotonic()
    if mode is Mode.KERNELS:
        driven = _compile(bench, problem, installation, known)
    else:
        driven = _rank(bench, problem, mode, installation, known)
    return replace(driven, seconds=time.monotonic() - started)


def _rank(
    bench: DriverSetup,
    problem: Problem,
    mode: Mode,
    installation: Installation,
    known: ProblemRecords,
) -> DriverResult:
    bench.place.prepare(mode)
    if mode is Mode.FIND:  # a search overwrites what is known
        results.put_records(bench.place, installation, replace(known, find=None))
    output = _run(bench, mode, driver_arguments(problem, mode, bench.iterations), problem.direction)
    if not output.solver:
        _checked(output)  # the wrong result may be of any solver
    problem_records = _take(bench, problem, output)
    lines = find_results(problem_records.find) if problem_records.find else ()
    entries = [_entry(line, problem_records, output) for line in lines]
    wrong = [
        entry for entry in entries if output.checked is False and entry.solver == output.solver
    ]
    doubtful = [entry for entry in entries if entry.time_ms is None and entry not in wrong]
    again = [_timed_again(bench, problem, entry) for entry in doubtful]
    sound = [entry for entry in entries if entry.time_ms is not None]
    return DriverResult(
        tuple(sorted([*sound, *again, *wrong], key=_sort_key)),
        problem_records
        if output.checked is not False
        else results.without_solver(problem_records, output.solver),
        results.installation_of(bench.place) or installation,
        {},
        1 + len(again),
        0.0,
        len(doubtful),
    )


def _compile(
    bench: DriverSetup, problem: Problem, installation: Installation, known: ProblemRecords
) -> DriverResult:
    """With a record in the find-db, MIOpen compiles only the solver that is fastest there."""
    runs = 1
    if believable_record(known.find) is None:
        ranked = _rank(bench, problem, Mode.FIND, installation, known)
        known, runs = ranked.problem_records, ranked.runs + 1
    bench.place.prepare(Mode.KERNELS)
    results.put_records(
        bench.place, installation, replace(known, find=believable_record(known.find))
    )
    output = _run(bench, Mode.KERNELS, driver_arguments(problem, Mode.KERNELS), problem.direction)
    code: dict[str, bytes] = {}
    kernels: list[KernelName] = []
    for name, data in results.kernels_by_digest(results.kernels_in(bench.place.winning_kernels)):
        kernels.append(name)
        code[name.digest] = data
    if not kernels:
        log.info("%s compiled no kernel: it calls a library", output.solver or "the winner")
    lines = find_results(known.find) if known.find else ()
    entries = sorted((_entry(line, known, output) for line in lines), key=_sort_key)
    problem_records = replace(known, kernels=tuple(kernels))
    return DriverResult(tuple(entries), problem_records, installation, code, runs, 0.0)


def _run(
    bench: DriverSetup,
    mode: Mode,
    words: Sequence[str],
    direction: str,
    timeout_s: float | None = None,
) -> DriverOutput:
    """Run the program; `DriverError` if it reports a failure."""
    place = bench.place
    environment = variables(place, mode, bench.gpu)
    settings = [
        f"{name}={environment[name]}" for name in sorted(environment) if name in SET_VARIABLES
    ]
    log.info("%s", shlex.join([*settings, str(bench.driver), *words]))  # quoted for a shell
    finished = bench.run(
        Invocation(
            (str(bench.driver), *words),
            environment,
            place.root,
            place.output,
            bench.timeout_s if timeout_s is None else timeout_s,
        )
    )
    lines = finished.text.splitlines()
    if len(lines) > _LOGGED:
        log.info("[%d earlier lines are omitted]", len(lines) - _LOGGED)
    for line in lines[-_LOGGED:]:
        log.info("%s", line)
    output = read_output(finished.text, direction)
    if finished.trouble:
        what = output.failed or output.error or next(filter(str.strip, reversed(lines)), "").strip()
        more = f" ({what[:_LONGEST]})" if what and what not in finished.trouble else ""
        raise DriverError(f"MIOpenDriver {finished.trouble}{more}")
    if output.refused:
        raise DriverError(f"this MIOpenDriver cannot be used: {output.refused}")
    if output.failed:
        _fail(output, output.failed)
    return output


def _checked(output: DriverOutput) -> DriverOutput:
    if output.checked is False:
        raise DriverError(_complaint(output))
    return output


def _complaint(output: DriverOutput) -> str:
    return f"MIOpenDriver says that the result is wrong: {output.check}"


def _take(bench: DriverSetup, problem: Problem, output: DriverOutput) -> ProblemRecords:
    key = find_key(problem)
    problem_records, others = results.take_records(bench.place, key, perf_key(problem))
    found = results.installation_of(bench.place)
    if found is not None and found.device != bench.device:
        raise DriverError(f"MIOpenDriver ran on {found.device}, not on {bench.device}")
    if problem_records.find is None:
        there = f"; it wrote {numbered(others, 'record')} of other problems" if others else ""
        mute = ", and it printed no time" if output.time_ms is None else ""
        _fail(output, f"it wrote no find-db record of {key}{mute}{there}")
    return problem_records


def _entry(
    line: FindResultLine, problem_records: ProblemRecords, output: DriverOutput
) -> SolverTime:
    params = (
        {item.id: item.values for item in problem_records.perf.items}
        if problem_records.perf
        else {}
    )
    ran = line.solver == output.solver
    remark = "" if believable(line.time_ms) else f"MIOpen stored a time of {line.time_ms:g} ms"
    if ran and output.checked is False:
        remark = _complaint(output)
    return SolverTime(
        line.solver,
        None if remark else line.time_ms,
        line.workspace_bytes,
        line.algorithm,
        params.get(line.solver, ""),
        bool(output.checked) and ran,
        remark,
    )


def _timed_again(bench: DriverSetup, problem: Problem, entry: SolverTime) -> SolverTime:
    """Time a solver in immediate mode because the stored time is invalid."""
    words = timing_arguments(problem, entry.solver, bench.iterations)
    try:
        output = _checked(_run(bench, Mode.FIND, words, problem.direction))
    except DriverError as error:
        return replace(entry, remark=f"{entry.remark}, and timing it again failed: {error}")
    if not believable(output.time_ms) or output.solver not in ("", entry.solver):
        return replace(entry, remark=f"{entry.remark}, and timing it again gave no valid time")
    remark = f"{entry.remark}; this time is from immediate mode"
    return replace(entry, time_ms=output.time_ms, verified=bool(output.checked), remark=remark)


def _sort_key(entry: SolverTime) -> tuple[bool, float, str]:
    return entry.time_ms is None, entry.time_ms or 0.0, entry.solver


def _fail(output: DriverOutput, what: str) -> NoReturn:
    error = f" ({output.error})" if output.error else ""
    raise DriverError(f"MIOpenDriver gave no result: {what}{error}")
