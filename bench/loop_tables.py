"""Tables of schedules and times, measured on many cores at once, to train policies from.

Problems are drawn by a seed (`loop_problems`). Of each, some hundred schedules are built, checked
and timed, good and bad ones (`measure_problem`). Each process has cores of its own, on which it
first builds and then times; no two share a physical core. There is a table for each level of the
instruction set and each number of threads::

    PYTHONPATH=src python3 bench/loop_tables.py --minutes 8 --processes 14 -o tables

Lines are written problem by problem, so that the files are whole whenever it is stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

import loop_problems
from skipjack import __version__
from skipjack.core import Problem
from skipjack.errors import SkipjackError
from skipjack.learn.loops import Preset, loop_game, loop_solver
from skipjack.learn.rates import LiveRates, MeasurePlan, measure_problem, problem_line, table_header
from skipjack.learn.tree import SearchBudget, method_of, run_search
from skipjack.native import cpu, llvm
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.tuning import ConfigTimer

HIGHEST = ""
SHARES = (
    *((HIGHEST, 1), (HIGHEST, 2), ("x86-64-v3", 1), (HIGHEST, 1), ("x86-64-v3", 2)),
    *(("x86-64-v3", 1), (HIGHEST, 1), (HIGHEST, 2), ("x86-64-v3", 1), (HIGHEST, 1), (HIGHEST, 1)),
)
"""Levels and threads of the processes, in the order in which cores are given to them."""
_PROBLEM_S = 12.0
"""No more schedules of a problem after so long."""
_GRACE_S = 25.0
_WIDTH, _ACTIONS = 6, 10
"""Of the beam search with ``--beam``."""


# A process that measures


def serve(threads: int, seed: int, beam: int) -> None:
    """Measure problems that come line by line, until there are none."""
    loop_problems.load_operations()
    device = cpu.detect(threads)
    header = table_header(device, __version__)
    _answer({"header": header.line(), "name": f"{device.level}_{threads}"})
    settings = load_settings(build_workers=threads, core=cpu.usable_cores()[0])

    def timer() -> ConfigTimer:
        return ConfigTimer(device, settings, alone=False, builds_first=True)

    with LiveRates(device, settings, keep=False, make_timer=timer) as rates:
        for number, line in enumerate(sys.stdin):
            order = json.loads(line)
            rng = np.random.default_rng([seed, threads, number])
            deadline = min(time.monotonic() + _PROBLEM_S, order["deadline"])
            try:
                _answer(measure(rates, parse(order["problem"]), rng, deadline, beam))
            except SkipjackError as error:
                _answer({"count": 0, "line": "", "reason": f"{order['problem']}: {error}"})


def _answer(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def measure(
    rates: LiveRates, problem: Problem, rng: np.random.Generator, deadline: float, beam: int
) -> dict[str, Any]:
    """Times of some hundred schedules of a problem, as a line of the table."""
    started = time.monotonic()
    if beam:
        times_ns = beam_times(rates, problem, beam)
    else:
        times_ns = measure_problem(
            *(problem, rates.device, rates, MeasurePlan(), rng), lambda: time.monotonic() > deadline
        )
    took = round(time.monotonic() - started, 2)
    line = problem_line(problem.key, loop_solver(problem).name, times_ns, seconds=took)
    return {"line": line, "count": len(times_ns)}


def beam_times(rates: LiveRates, problem: Problem, count: int) -> dict[str, float | None]:
    """What a beam search of the preset looptune measures on its way."""
    game = loop_game(problem, rates.device, Preset.LOOPTUNE)
    method = method_of("beam", width=_WIDTH, lookahead=1)
    run_ = run_search(problem, game, rates, method, SearchBudget(count, _ACTIONS))
    return {
        step.schedule: None if step.seconds is None else step.seconds * 1e9 for step in run_.steps
    }


# Who gives out problems


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs, and at which level."""

    level: str
    cores: tuple[int, ...]

    @property
    def group(self) -> tuple[str, int]:
        """Whose problems it measures."""
        return self.level, len(self.cores)


def places(cores: Sequence[int], groups: Sequence[tuple[str, int]]) -> list[Place]:
    """Processes for the cores, each core once."""
    free, found = list(cores), []
    while free:
        fitting = [group for group in groups if group[1] <= len(free)]
        if not fitting:
            break
        for level, threads in fitting:
            if threads <= len(free):
                found.append(Place(level, tuple(free[:threads])))
                free = free[threads:]
    return found


def physical_cores() -> list[int]:
    """One of the usable logical cores for each physical one."""
    found: dict[str, int] = {}
    for core in cpu.usable_cores():
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        try:
            found.setdefault(path.read_text().strip(), core)
        except OSError:
            found.setdefault(str(core), core)
    return sorted(found.values())


class Tables:
    """The files, and which problem is next for whom. Threads share it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._lock = threading.Lock()
        self._files: dict[str, IO[str]] = {}
        self._problems: dict[tuple[str, int], Iterator[Problem]] = {}
        self.counts: dict[str, list[int]] = {}

    def next_problem(self, group: tuple[str, int]) -> str:
        """The same problems in the same order at every level, others for other threads."""
        with self._lock:
            if group not in self._problems:
                self._problems[group] = loop_problems.problems(self._seed * 100 + group[1])
            return next(self._problems[group]).key

    def begin(self, name: str, header: str) -> None:
        """Have a file for a device."""
        with self._lock:
            if name not in self._files:
                file = (self._folder / f"loops_{name}.jsonl").open("w")
                file.write(header)
                self._files[name], self.counts[name] = file, [0, 0]

    def add(self, name: str, line: str, count: int) -> None:
        """Write a problem's line."""
        with self._lock:
            self._files[name].write(line)
            self._files[name].flush()
            self.counts[name][0] += 1
            self.counts[name][1] += count


def drive(place: Place, tables: Tables, deadline: float, words: Sequence[str]) -> None:
    """Keep one process busy until the deadline; start another one if it dies."""
    while time.monotonic() < deadline:
        process = start(place, words)
        timer = threading.Timer(deadline + _GRACE_S - time.monotonic(), process.kill)
        timer.start()
        try:
            _feed(process, place, tables, deadline)
        except (OSError, ValueError) as error:
            print(f"a process on {place.cores} ended: {error}", file=sys.stderr)
        finally:
            timer.cancel()
            process.kill()
            process.wait()


def _feed(process: subprocess.Popen[str], place: Place, tables: Tables, deadline: float) -> None:
    assert process.stdin
    assert process.stdout
    greeting = json.loads(process.stdout.readline())
    tables.begin(greeting["name"], greeting["header"])
    while time.monotonic() < deadline - 1.0:
        order = {"problem": tables.next_problem(place.group), "deadline": deadline}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if answer["count"]:
            tables.add(greeting["name"], answer["line"], answer["count"])
        elif "reason" in answer:
            print(answer["reason"], file=sys.stderr)


def start(place: Place, words: Sequence[str], script: str = __file__) -> subprocess.Popen[str]:
    """A process of a script that measures on its cores alone."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if place.level:
        environment[llvm.LEVEL_VARIABLE] = place.level
    command = [sys.executable, str(Path(script).resolve()), "--serve", str(len(place.cores))]
    return subprocess.Popen(
        [*command, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, place.cores),
    )


def run(options: argparse.Namespace) -> None:
    """Measure until the time is up."""
    options.output.mkdir(parents=True, exist_ok=True)
    cores = cpu.usable_cores() if options.share_cores else physical_cores()
    groups = [group for group in SHARES if not options.groups or _name(group) in options.groups]
    if cpu.detect().level in ("x86-64-v3", "x86-64-v2"):
        groups = [group for group in groups if group[0] == HIGHEST]
    chosen = places(cores[-options.processes :], groups)
    print(f"{len(cpu.usable_cores())} cores, {len(cores)} used one by one at most; ", end="")
    print("; ".join(f"{_name(place.group)} on {place.cores}" for place in chosen), flush=True)
    deadline = time.monotonic() + 60.0 * options.minutes
    tables = Tables(options.output, options.seed)
    words = ["--seed", str(options.seed), "--beam", str(options.beam)]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SKIPJACK_USER_DB_PATH"] = os.environ["SKIPJACK_LOCK_DIR"] = scratch
        threads = [
            threading.Thread(target=drive, args=(place, tables, deadline, words))
            for place in chosen
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(30.0 / len(threads))
            print(_progress(tables), flush=True)
    sizes = {path.name: path.stat().st_size for path in sorted(options.output.glob("*.jsonl"))}
    print(json.dumps({"problems_and_schedules": tables.counts, "bytes": sizes}))


def _name(group: tuple[str, int]) -> str:
    return f"{group[0] or 'highest'}/{group[1]}"


def _progress(tables: Tables) -> str:
    return ", ".join(
        f"{name}: {c[0]} problems, {c[1]} schedules" for name, c in tables.counts.items()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=Path("tables"), help="folder")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--processes", type=int, default=14, help="cores that are used")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--beam", type=int, default=0, help="so many by a beam search of the preset looptune"
    )
    parser.add_argument("--groups", nargs="*", help="such as highest/1 x86-64-v3/2")
    parser.add_argument(
        "--share-cores", action="store_true", help="also use logical cores of one physical core"
    )
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.serve:
            serve(options.serve, options.seed, options.beam)
        else:
            run(options)
    except SkipjackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
