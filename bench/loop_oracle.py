"""Oracle tables: every schedule within some actions of the untuned nest, measured.

For five of LoopTune's 25 shapes the game of the preset looptune is played exhaustively, as deep as
a few thousand distinct schedules allow, and all of them are built, checked and timed. Replayed
(``--rates exactly:bench/results/loop_oracle``), a table says how far a search of so many actions is
from the best that there is::

    PYTHONPATH=src python3 bench/loop_oracle.py --minutes 20 --processes 2

There is a file for each shape and level of the instruction set. Each is written after every few
schedules, and the same command goes on where it was stopped: the fastest schedule is timed once
more, and new times are scaled by it. A problem is measured by one process, so that its times
compare; no two processes share a physical core.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loop_tables import Place, physical_cores, start
from skipjack import __version__
from skipjack.core import Problem
from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.loops import GameState, LoopGame, Preset, loop_game, loop_solver
from skipjack.learn.rates import LiveRates, LoopTable, open_table, table_header, write_table
from skipjack.learn.rates.live import RateCache
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule
from skipjack.tuning import ConfigTimer

SHAPES = ("64x240x64", "208x80x224", "112x208x256", "160x224x192", "224x224x256")
"""Of the 25, from small to large; thin and square ones."""
MOST = 5000
_AT_ONCE = 48
_GRACE_S = 25.0


# What is measured


def layers(game: LoopGame) -> Iterator[list[Schedule]]:
    """For 0, 1, 2, ... actions the distinct schedules that fewer actions do not reach.

    It ends where nothing new can be reached.
    """
    states = [game.start()]
    seen: set[GameState] = set(states)
    built: set[Schedule] = set()
    while states:
        new = [one for one in dict.fromkeys(map(game.built, states)) if one not in built]
        built |= set(new)
        yield new
        after = (
            game.apply(state, int(action))
            for state in states
            for action in game.mask(state).nonzero()[0]
        )
        states = [state for state in dict.fromkeys(after) if state not in seen]
        seen |= set(states)


def within(game: LoopGame, most: int) -> tuple[int, list[Schedule]]:
    """How many actions at most `most` schedules allow, and all schedules within them."""
    found: list[Schedule] = []
    depth = -1
    for layer in layers(game):
        if depth >= 0 and len(found) + len(layer) > most:
            break
        found += layer
        depth += 1
    return depth, found


def depth_of(game: LoopGame, times_ns: Mapping[str, float | None]) -> int:
    """Within how many actions a table has every schedule; -1 if it has not even the untuned one."""
    depth = -1
    for layer in layers(game):
        if any(schedule.text() not in times_ns for schedule in layer):
            break
        depth += 1
    return depth


# A process that measures


def serve(threads: int) -> None:
    """Measure what comes line by line, until there is nothing."""
    device = cpu.detect(threads)
    settings = load_settings(build_workers=threads, core=cpu.usable_cores()[0])

    def timer() -> ConfigTimer:
        return ConfigTimer(device, settings, alone=False, builds_first=True)

    cache = RateCache(settings.user_dir)
    with LiveRates(device, settings, make_timer=timer) as rates:
        for line in sys.stdin:
            order = json.loads(line)
            problem = parse(order["problem"])
            # The fastest that is known leads, and new times are scaled to its old one.
            cache.keep(rates.rate_key(problem), order["known"])
            some = [Schedule.parse(text) for text in order["schedules"]]
            found = rates.seconds(problem, some)
            times_ns = [None if seconds is None else seconds * 1e9 for seconds in found]
            print(json.dumps(times_ns), flush=True)
    cache.close()


# Who hands out the work


@dataclass(slots=True)
class Oracle:
    """A problem, its file, and what is left to be measured."""

    problem: Problem
    path: Path
    table: LoopTable
    depth: int
    schedules: list[Schedule]

    @property
    def left(self) -> list[str]:
        """Schedules without a time."""
        known = self.table.of(self.problem)
        return [text for each in self.schedules if (text := each.text()) not in known]

    def take(self, times_ns: Mapping[str, float | None]) -> None:
        """Keep what was measured, on disk when this returns."""
        self.table.add(self.problem.key, loop_solver(self.problem).name, times_ns)
        write_table(self.path, self.table)

    def line(self) -> str:
        """How far it is."""
        times_ns = self.table.of(self.problem)
        failed = sum(ns is None for ns in times_ns.values())
        best_ns = self.table.best_ns(self.problem)
        best = f", best {best_ns / 1e3:.1f} µs" if best_ns else ""
        done = f"{len(times_ns)} of {len(self.schedules)} schedules, {failed} failed{best}"
        return f"{self.problem.key}, {self.depth} actions: {done}"


def oracles(folder: Path, shapes: Sequence[str], most: int, threads: int) -> list[Oracle]:
    """The problems, and what is known of each."""
    device = cpu.detect(threads)
    header, found = table_header(device, __version__), []
    for shape in shapes:
        problem = parse(f"matmul:{shape}")
        depth, schedules = within(loop_game(problem, device, Preset.LOOPTUNE), most)
        path = folder / f"{shape}_{device.level}_{threads}.jsonl.gz"
        found.append(Oracle(problem, path, open_table(path, header), depth, schedules))
    return found


def drive(worker_place: Place, waiting: queue.SimpleQueue[Oracle], deadline: float) -> None:
    """Measure problem after problem on some cores; a process that dies is started again."""
    while time.monotonic() < deadline:
        try:
            oracle = waiting.get_nowait()
        except queue.Empty:
            return
        for _ in range(3):
            process = start(worker_place, (), __file__)
            killer = threading.Timer(deadline + _GRACE_S - time.monotonic(), process.kill)
            killer.start()
            try:
                _feed(process, oracle, deadline)
                break
            except (OSError, ValueError) as error:
                print(f"{oracle.problem.key}: a process ended: {error!r}", file=sys.stderr)
            finally:
                killer.cancel()
                process.kill()
                process.wait()
        print(oracle.line(), flush=True)


def _feed(process: subprocess.Popen[str], oracle: Oracle, deadline: float) -> None:
    assert process.stdin
    assert process.stdout
    known: Mapping[str, float | None] = oracle.table.of(oracle.problem)
    left = oracle.left
    for at in range(0, len(left), _AT_ONCE):
        if time.monotonic() > deadline:
            return
        some = left[at : at + _AT_ONCE]
        order: dict[str, Any] = {"problem": oracle.problem.key, "schedules": some}
        order["known"] = dict(known)
        known = {}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        times_ns = json.loads(process.stdout.readline())
        oracle.take(dict(zip(some, times_ns, strict=True)))


def run(options: argparse.Namespace) -> None:
    """Measure until all is known or the time is up."""
    options.output.mkdir(parents=True, exist_ok=True)
    cores = physical_cores()[-options.processes * options.threads :]
    starts = range(0, len(cores) - options.threads + 1, options.threads)
    places = [Place("", tuple(cores[at : at + options.threads])) for at in starts]
    if not places:
        raise UsageError(f"{options.threads} threads need as many physical cores")
    waiting: queue.SimpleQueue[Oracle] = queue.SimpleQueue()
    all_of_them = oracles(options.output, options.shapes, options.most, options.threads)
    for oracle in all_of_them:
        print(oracle.line(), flush=True)
        if oracle.left:
            waiting.put(oracle)
    deadline = time.monotonic() + 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SKIPJACK_USER_DB_PATH"] = os.environ["SKIPJACK_LOCK_DIR"] = scratch
        threads = [threading.Thread(target=drive, args=(one, waiting, deadline)) for one in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    left = sum(len(oracle.left) for oracle in all_of_them)
    print(f"{left} schedules are left; the same command goes on" if left else "all is measured")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    folder = Path(__file__).parent / "results" / "loop_oracle"
    parser.add_argument("-o", "--output", type=Path, default=folder, help="folder of the tables")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=1, help="problems measured at once")
    parser.add_argument("--threads", type=int, default=1, help="of the schedules")
    parser.add_argument("--most", type=int, default=MOST, help="schedules of a problem")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.serve:
            serve(options.serve)
        else:
            run(options)
    except SkipjackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
