"""MIOpenDriver at work on one problem: run it, believe what can be believed, say what went wrong.

Kernels are taken out of the cache only where they are asked for: a search compiles thousands that
nobody will run again. How a program is run is for the caller to know: this takes an `Invocation` to
a `Finished` through whatever it is given, so that everything here is tried without a process.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from skipjack.core.problem import Problem
from skipjack.errors import WorkerError
from skipjack.interop.miopen import FindResultLine, find_key, find_results, perf_key
from skipjack.reading import numbered
from skipjack.solvers.miopen import databases
from skipjack.solvers.miopen.command import ITERATIONS, PROBE, Mode, arguments, timing_arguments
from skipjack.solvers.miopen.databases import Harvest, Installation, KernelName, believed
from skipjack.solvers.miopen.environment import SET, Place, variables
from skipjack.solvers.miopen.output import Said, believable, read_output

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 600.0
"""The first run of all may compile a few kernels."""
NOTHING = Harvest()
_LONGEST = 300
_LOGGED = 400
"""Lines of what is printed that are logged, from the end; a search prints very many."""


class DriverError(WorkerError):
    """A run of MIOpenDriver that gave no result; the message says why."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A run to be made."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    output: Path
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """How it ended."""

    text: str
    """What it printed."""
    trouble: str = ""
    """How it ended, if not by itself and with status 0: ``ended with exit code 3``."""


Run = Callable[[Invocation], Finished]


@dataclass(frozen=True, slots=True)
class Bench:
    """A program, a GPU, and a place of their own."""

    driver: Path
    place: Place
    gpu: str
    """As ``hip:0``."""
    device: str
    """What it must be, as ``gfx908/120``."""
    run: Run
    timeout_s: float
    iterations: int = ITERATIONS


@dataclass(frozen=True, slots=True)
class Entry:
    """One solver of a ranking."""

    solver: str
    time_ms: float | None
    """None if no time of it is believed."""
    workspace_bytes: int
    algorithm: str
    params: str = ""
    """As the perf-db has them; empty for a solver without any."""
    verified: bool = False
    """MIOpenDriver compared its result with a reference's. It does so with the one it runs."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a problem."""

    entries: tuple[Entry, ...]
    """Fastest first, those without a time last."""
    harvest: Harvest
    installation: Installation
    code: Mapping[str, bytes]
    """Of the kernels in the harvest, by digest; where kernels were asked for."""
    runs: int
    seconds: float
    unbelieved: int = 0
    """Times of MIOpen that were zero or negative."""


def probe(bench: Bench) -> Installation:
    """Which MIOpen this is and what it runs on; `DriverError` if it is not the device asked for."""
    bench.place.prepare(Mode.FIND)
    said = _right(_run(bench, Mode.FIND, PROBE, "fwd", PROBE_TIMEOUT_S))
    found = databases.installation_of(bench.place)
    if found is None:
        _complain(said, f"it left no find-db in {bench.place.user_db}, so its version is not known")
    if found.device != bench.device:
        raise DriverError(
            f"{bench.driver} runs on {found.device} as GPU {bench.gpu}, not on {bench.device}"
        )
    return found


def drive(
    bench: Bench,
    problem: Problem,
    mode: Mode,
    installation: Installation,
    known: Harvest = NOTHING,
) -> Driven:
    """Let MIOpen search, find or compile; `known` are records of this problem from before."""
    started = time.monotonic()
    if mode is Mode.KERNELS:
        driven = _compile(bench, problem, installation, known)
    else:
        driven = _rank(bench, problem, mode, installation, known)
    return replace(driven, seconds=time.monotonic() - started)


def _rank(
    bench: Bench, problem: Problem, mode: Mode, installation: Installation, known: Harvest
) -> Driven:
    bench.place.prepare(mode)
    if mode is Mode.FIND:  # a search overwrites what is known
        databases.put(bench.place, installation, replace(known, find=None))
    said = _run(bench, mode, arguments(problem, mode, bench.iterations), problem.direction)
    if not said.solver:
        _right(said)  # what is wrong may be any of them
    harvest = _take(bench, problem, said)
    lines = find_results(harvest.find) if harvest.find else ()
    entries = [_entry(line, harvest, said) for line in lines]
    wrong = [entry for entry in entries if said.checked is False and entry.solver == said.solver]
    doubtful = [entry for entry in entries if entry.time_ms is None and entry not in wrong]
    again = [_timed_again(bench, problem, entry) for entry in doubtful]
    sound = [entry for entry in entries if entry.time_ms is not None]
    return Driven(
        tuple(sorted([*sound, *again, *wrong], key=_turn)),
        harvest if said.checked is not False else databases.without(harvest, said.solver),
        databases.installation_of(bench.place) or installation,
        {},
        1 + len(again),
        0.0,
        len(doubtful),
    )


def _compile(bench: Bench, problem: Problem, installation: Installation, known: Harvest) -> Driven:
    """With a record of the find-db at hand, MIOpen compiles what is fastest there, and no more."""
    runs = 1
    if believed(known.find) is None:
        ranked = _rank(bench, problem, Mode.FIND, installation, known)
        known, runs = ranked.harvest, ranked.runs + 1
    bench.place.prepare(Mode.KERNELS)
    databases.put(bench.place, installation, replace(known, find=believed(known.find)))
    said = _run(bench, Mode.KERNELS, arguments(problem, Mode.KERNELS), problem.direction)
    code: dict[str, bytes] = {}
    kernels: list[KernelName] = []
    for name, data in databases.named(databases.kernels_in(bench.place.winners)):
        kernels.append(name)
        code[name.digest] = data
    if not kernels:
        log.info("%s compiled no kernel: it is a library's own", said.solver or "the winner")
    lines = find_results(known.find) if known.find else ()
    entries = sorted((_entry(line, known, said) for line in lines), key=_turn)
    harvest = replace(known, kernels=tuple(kernels))
    return Driven(tuple(entries), harvest, installation, code, runs, 0.0)


def _run(
    bench: Bench,
    mode: Mode,
    words: Sequence[str],
    direction: str,
    timeout_s: float | None = None,
) -> Said:
    """Run it, and raise what it says has gone wrong."""
    place = bench.place
    environment = variables(place, mode, bench.gpu)
    settings = [f"{name}={environment[name]}" for name in sorted(environment) if name in SET]
    log.info("%s", shlex.join([*settings, str(bench.driver), *words]))  # as a shell takes it
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
        log.info("[%d lines before these are left out]", len(lines) - _LOGGED)
    for line in lines[-_LOGGED:]:
        log.info("%s", line)
    said = read_output(finished.text, direction)
    if finished.trouble:
        what = said.failed or said.error or next(filter(str.strip, reversed(lines)), "").strip()
        more = f" ({what[:_LONGEST]})" if what and what not in finished.trouble else ""
        raise DriverError(f"MIOpenDriver {finished.trouble}{more}")
    if said.refused:
        raise DriverError(f"this MIOpenDriver cannot be used: {said.refused}")
    if said.failed:
        _complain(said, said.failed)
    return said


def _right(said: Said) -> Said:
    if said.checked is False:
        raise DriverError(_complaint(said))
    return said


def _complaint(said: Said) -> str:
    return f"MIOpenDriver says that the result is wrong: {said.check}"


def _take(bench: Bench, problem: Problem, said: Said) -> Harvest:
    key = find_key(problem)
    harvest, others = databases.take(bench.place, key, perf_key(problem))
    found = databases.installation_of(bench.place)
    if found is not None and found.device != bench.device:
        raise DriverError(f"MIOpenDriver ran on {found.device}, not on {bench.device}")
    if harvest.find is None:
        there = f"; it left {numbered(others, 'record')} of other problems" if others else ""
        mute = ", and it printed no time" if said.time_ms is None else ""
        _complain(said, f"it left no find-db record of {key}{mute}{there}")
    return harvest


def _entry(line: FindResultLine, harvest: Harvest, said: Said) -> Entry:
    params = {item.id: item.values for item in harvest.perf.items} if harvest.perf else {}
    ran = line.solver == said.solver
    remark = "" if believable(line.time_ms) else f"MIOpen stored a time of {line.time_ms:g} ms"
    if ran and said.checked is False:
        remark = _complaint(said)
    return Entry(
        line.solver,
        None if remark else line.time_ms,
        line.workspace_bytes,
        line.algorithm,
        params.get(line.solver, ""),
        bool(said.checked) and ran,
        remark,
    )


def _timed_again(bench: Bench, problem: Problem, entry: Entry) -> Entry:
    """A time of the immediate mode for one that MIOpen stored and nobody can believe."""
    words = timing_arguments(problem, entry.solver, bench.iterations)
    try:
        said = _right(_run(bench, Mode.FIND, words, problem.direction))
    except DriverError as error:
        return replace(entry, remark=f"{entry.remark}, and timing it again failed: {error}")
    if not believable(said.time_ms) or said.solver not in ("", entry.solver):
        return replace(entry, remark=f"{entry.remark}, and timing it again gave none")
    remark = f"{entry.remark}; this one is of the immediate mode"
    return replace(entry, time_ms=said.time_ms, verified=bool(said.checked), remark=remark)


def _turn(entry: Entry) -> tuple[bool, float, str]:
    return entry.time_ms is None, entry.time_ms or 0.0, entry.solver


def _complain(said: Said, what: str) -> NoReturn:
    error = f" ({said.error})" if said.error else ""
    raise DriverError(f"MIOpenDriver gave no result: {what}{error}")
