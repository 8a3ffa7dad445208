"""Times once more what decides in tables of `loop_tables`, and writes better tables.

The fastest of some hundred schedules are partly those that were lucky. So the fastest of each
problem are timed again, beside some that were not chosen by their times, in several passes with
builds, processes and a leader of their own. A schedule's new time is the median of the passes; all
other times of the problem are scaled by how those that were not chosen compare::

    PYTHONPATH=src python3 bench/loop_again.py bench/results/loop_tables --minutes 5 -o tables

Fewer processes than for the tables disturb each other less: it uses every second core.
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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import loop_problems
from loop_tables import Place, start
from skipjack.core import Problem
from skipjack.learn.loops import loop_solver
from skipjack.learn.rates import LiveRates, LoopTable, read_tables, write_table
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule
from skipjack.tuning import ConfigTimer

FASTEST, OTHERS = 18, 6
PASSES = 3
_GRACE_S = 25.0
Times = dict[str, float | None]


# A process that measures


def serve(threads: int) -> None:
    """Time schedules of problems that come line by line, until there are none."""
    loop_problems.load_operations()
    device = cpu.detect(threads)
    settings = load_settings(build_workers=threads, core=cpu.usable_cores()[0])

    def timer() -> ConfigTimer:
        return ConfigTimer(device, settings, alone=False, builds_first=True)

    print(json.dumps({"class": device.class_key}), flush=True)
    with ExitStack() as stack:
        every = [
            stack.enter_context(LiveRates(device, settings, keep=False, make_timer=timer))
            for _ in range(PASSES)
        ]
        for line in sys.stdin:
            order = json.loads(line)
            problem, texts = parse(order["problem"]), order["schedules"]
            passes = [_passed(rates, problem, texts) for rates in every]
            print(json.dumps({"problem": problem.key, "passes": passes}), flush=True)


def _passed(rates: LiveRates, problem: Problem, texts: list[str]) -> Times:
    """One pass, in an order of its own."""
    order = np.random.default_rng().permutation(len(texts))
    shuffled = [texts[int(at)] for at in order]
    found = rates.seconds(problem, [Schedule.parse(text) for text in shuffled])
    return dict(zip(shuffled, found, strict=True))


# Who gives out problems


def chosen(times_ns: Mapping[str, float | None], seed: int) -> tuple[list[str], list[str]]:
    """The fastest schedules, and others that were not chosen by their times."""
    timed = {text: ns for text, ns in times_ns.items() if ns is not None}
    fastest = sorted(timed, key=timed.__getitem__)[:FASTEST]
    rest = [text for text in timed if text not in fastest]
    rng = np.random.default_rng(seed)
    # Half of those that were proposed first, half of all.
    some = dict.fromkeys(rest[: OTHERS // 2])
    some |= dict.fromkeys(rest[int(at)] for at in rng.permutation(len(rest))[: OTHERS // 2])
    return fastest, list(some)


def merged(
    times_ns: Mapping[str, float | None], passes: Sequence[Times], others: Sequence[str]
) -> Times:
    """All times of a problem after the passes."""
    again: dict[str, float] = {}
    for text in passes[0]:
        each = [ns for one in passes if (ns := one[text]) is not None]
        if len(each) == len(passes):
            again[text] = 1e9 * median(each)
    logs = [np.log(again[t] / ns) for t in others if t in again and (ns := times_ns[t])]
    scale = float(np.exp(median(logs))) if logs else 1.0
    found: Times = {}
    for text, ns in times_ns.items():
        scaled = None if ns is None else ns * scale
        found[text] = again.get(text, scaled) if text in passes[0] else scaled
        if text in passes[0] and text not in again:
            found[text] = None
    return found


class Orders:
    """The problems of all tables, and what came of them. Threads share it."""

    def __init__(self, tables: Sequence[LoopTable], seed: int) -> None:
        self._lock = threading.Lock()
        self.tables = {table.header.device.class_key: table for table in tables}
        self._left = {
            name: [str(key) for key in np.random.default_rng(seed).permutation(list(t.times_ns))]
            for name, t in self.tables.items()
        }
        self._seed = seed
        self.done: dict[str, dict[str, Times]] = {name: {} for name in self.tables}
        self.spread: list[float] = []
        """Of the passes of each schedule: log of the largest over the smallest."""

    def next_order(self, name: str) -> tuple[str, list[str], list[str]] | None:
        """A problem and its schedules."""
        with self._lock:
            if not self._left[name]:
                return None
            key = self._left[name].pop()
        fastest, others = chosen(self.tables[name].times_ns[key], self._seed)
        return key, fastest, others

    def take(self, name: str, key: str, passes: Sequence[Times], others: Sequence[str]) -> None:
        """What was timed of a problem."""
        times_ns = merged(self.tables[name].times_ns[key], passes, others)
        with self._lock:
            self.done[name][key] = times_ns
            for text in passes[0]:
                each = [ns for one in passes if (ns := one[text]) is not None]
                if len(each) == len(passes):
                    self.spread.append(float(np.log(max(each) / min(each))))


def drive(place: Place, orders: Orders, deadline: float) -> None:
    """Keep one process busy; another one takes over where it dies."""
    while time.monotonic() < deadline:
        process = start(place, (), __file__)
        killer = threading.Timer(deadline + _GRACE_S - time.monotonic(), process.kill)
        killer.start()
        try:
            if _feed(process, orders, deadline):
                return
        except (OSError, ValueError, KeyError) as error:
            print(f"a process on {place.cores} ended: {error!r}", file=sys.stderr)
        finally:
            killer.cancel()
            process.kill()
            process.wait()


def _feed(process: subprocess.Popen[str], orders: Orders, deadline: float) -> bool:
    """Whether there was nothing left to do."""
    assert process.stdin
    assert process.stdout
    name = json.loads(process.stdout.readline())["class"]
    while time.monotonic() < deadline:
        order = orders.next_order(name)
        if order is None:
            return True
        key, fastest, others = order
        words = {"problem": key, "schedules": [*fastest, *others]}
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        orders.take(name, key, answer["passes"], others)
    return True


def places(cores: Sequence[int], tables: Sequence[LoopTable]) -> list[Place]:
    """Processes for the tables, more for those with more schedules."""
    wanted: dict[tuple[str, int], float] = {}
    for table in tables:
        device = table.header.device
        level = "" if device.vector_bytes == 64 else device.level
        wanted[level, device.units] = table.entries
    given = dict.fromkeys(wanted, 0)
    free, found = list(cores), []
    while fitting := [group for group in wanted if group[1] <= len(free)]:
        group = max(fitting, key=lambda each: wanted[each] / (given[each] + 1))
        given[group] += 1
        found.append(Place(group[0], tuple(free[: group[1]])))
        free = free[group[1] :]
    return found


def run(options: argparse.Namespace) -> None:
    """Time until the time is up, then write the tables."""
    loop_problems.load_operations()
    tables = read_tables(options.tables)
    here = cpu.detect()
    tables = [table for table in tables if table.header.device.model == here.model]
    usable = cpu.usable_cores()
    used = places(usable[:: options.every], tables)
    print("; ".join(f"{place.level or 'highest'} on {place.cores}" for place in used), flush=True)
    orders, deadline = Orders(tables, options.seed), time.monotonic() + 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SKIPJACK_USER_DB_PATH"] = os.environ["SKIPJACK_LOCK_DIR"] = scratch
        threads = [threading.Thread(target=drive, args=(one, orders, deadline)) for one in used]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report: dict[str, Any] = {"spread_of_passes": _quantiles(orders.spread)}
    options.output.mkdir(parents=True, exist_ok=True)
    for name, table in orders.tables.items():
        better = LoopTable(table.header)
        for key, times_ns in orders.done[name].items():
            better.add(key, loop_solver(parse(key)).name, times_ns)
        file = f"loops_{table.header.device.level}_{table.header.device.units}.jsonl.gz"
        write_table(options.output / file, better)
        report[file] = [len(better.times_ns), better.entries]
    print(json.dumps(report))


def _quantiles(values: Sequence[float]) -> list[float]:
    return np.percentile(values, [10, 25, 50, 75, 90]).round(4).tolist() if values else []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("tables", type=Path, nargs="?", help="file or folder")
    parser.add_argument("-o", "--output", type=Path, help="folder for the better tables")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--every", type=int, default=2, help="use every so many-th core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve)
    else:
        run(options)


if __name__ == "__main__":
    main()
