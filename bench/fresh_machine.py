"""A machine on which nothing was tuned: what `lookup` gives there, beside tuning and NumPy.

Problems that the system's bank has (every so many of ``lists/cpu.txt``), and others that no bank
has. Of each, in a process of its own, on one thread: `lookup` with an empty user directory, then
the same problem tuned for ``--seconds``, and NumPy. Their bound calls are timed in turns. The
first answer may be a library's while a kernel is verified beside the program; what is timed is the
answer after that, and the record names both. Prints the geometric means of both kinds with their
least values, and writes a result file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import calls
import machine
import skipjack
from skipjack import lists
from skipjack.core import Problem
from skipjack.execute import paired_ratio
from skipjack.native import cpu
from skipjack.operations import get, outputs, parse
from skipjack.solvers.vendor.cpu import NumpySolver

SHIPPED = 20
OTHERS = (
    *("matmul:100x200x300", "matmul:144x256x96", "matmul:192x192x192", "matmul:300x300x300"),
    *("matmul:384x384x384", "matmul:128x1536x384", "matmul:64x2048x512", "matmul:31x97x61"),
    *("matmul:4x2048x2048/tb=1", "add:333x777", "gelu:200x768", "softmax:300x500"),
    *("layernorm:128x768", "sum:1000x300/axis=1", "sum:128x4096/axis=0", "exp:100000"),
    *("conv2d:n1c48h40w40k96y3x3p1q1", "conv2d:n1c96h30w30k192y1x1"),
    *("conv2d:n2c32h64w64k32y3x3p1q1", "conv2d:n1c80h28w28k80y3x3p1q1g80"),
)
"""Sizes that are in no list."""
ANSWER, TUNED, NUMPY = "answer", "tuned", "numpy"
_PATIENCE_S = 60.0


def shipped() -> list[str]:
    """Problems of the list from its first to its last, evenly spaced."""
    lines = lists.path_of("cpu").read_text(encoding="utf-8").splitlines()
    keys = [line for line in lines if line and not line.startswith("#")]
    return [keys[at * len(keys) // SHIPPED] for at in range(SHIPPED)]


def settled(key: str) -> tuple[Any, list[str]]:
    """What a lookup gives once nothing is checked any more, and all sources on the way to it."""
    sources: list[str] = []
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = skipjack.lookup(key)
        assert found is not None, "NumPy computes all of these"
        if not sources or sources[-1] != found.source:
            sources.append(found.source)
        if found.source != "library" or time.monotonic() > until or not _checking():
            return skipjack.lookup(key), sources
        time.sleep(0.1)


def _checking() -> bool:
    from threading import enumerate as threads

    return any(thread.name == "skipjack-checks" for thread in threads())


def case(key: str, seconds: float) -> dict[str, Any]:
    """One problem, in this process."""
    problem = parse(key, "f32")
    answer, sources = settled(problem.key)
    result = skipjack.tune(problem.key, seconds=seconds)
    blocks = calls.timed(_contenders(problem, answer, result.kernel()))
    over_tuned = paired_ratio(blocks[TUNED], blocks[ANSWER])
    over_numpy = paired_ratio(blocks[NUMPY], blocks[ANSWER])
    return {
        "problem": problem.key,
        "sources": sources,
        "solver": answer.solver,
        "tuned": result.solver,
        "outcome": str(result.status),
        "of_tuned": [
            round(over_tuned.ratio, 3),
            round(over_tuned.low, 3),
            round(over_tuned.high, 3),
        ],
        "over_numpy": [
            round(over_numpy.ratio, 3),
            round(over_numpy.low, 3),
            round(over_numpy.high, 3),
        ],
    }


def _contenders(problem: Problem, answer: Any, tuned: Any) -> calls.Calls:
    arrays = calls.arrays_of(problem)
    inputs = [arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    out = {tensor.name: arrays[tensor.name] for tensor in outputs(problem)}
    return {
        NUMPY: NumpySolver().bind(problem, arrays),
        ANSWER: answer.bind(*inputs, out=out),
        TUNED: tuned.bind(*inputs, out=out),
    }


def in_process(key: str, seconds: float, cores: Sequence[int]) -> dict[str, Any]:
    """The case of a problem, in a process of its own with an empty user directory."""
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {
            "SKIPJACK_USER_DB_PATH": directory,
            # Tunings of one machine take turns; these have cores of their own.
            "SKIPJACK_LOCK_DIR": directory,
            "SKIPJACK_CORE": str(cores[-1]),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        words = [sys.executable, __file__, "--seconds", str(seconds), "--one", key]
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
    if done.returncode:
        return {"problem": key, "failed": done.returncode}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def all_cases(keys: Sequence[str], seconds: float, at_once: int) -> list[dict[str, Any]]:
    """In order; `at_once` at a time, each on cores of its own: one to time on, one to build on."""
    here = cpu.usable_cores()
    places: Queue[Sequence[int]] = Queue()
    for at in range(at_once):
        places.put(here[2 * at : 2 * at + 2])

    def run(key: str) -> dict[str, Any]:
        place = places.get()
        try:
            found = in_process(key, seconds, place)
        finally:
            places.put(place)
        print(json.dumps(found), file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, keys))


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means, and the worst."""
    good = [one for one in cases if "failed" not in one]
    of_tuned = [one["of_tuned"][0] for one in good]
    over_numpy = [one["over_numpy"][0] for one in good]
    return {
        "cases": len(cases),
        "failed": len(cases) - len(good),
        "of_tuned": round(statistics.geometric_mean(of_tuned), 3),
        "least_of_tuned": min(of_tuned),
        "over_numpy": round(statistics.geometric_mean(over_numpy), 3),
        "least_over_numpy": min(over_numpy),
        "over_5_percent_slower_than_numpy": sum(ratio < 0.95 for ratio in over_numpy),
    }


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for tuning each")
    parser.add_argument("--at-once", type=int, default=1, help="problems at a time")
    parser.add_argument("--one", help="only this problem, in this process")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(case(arguments.one, arguments.seconds)))
        return
    kinds = {"shipped": shipped(), "others": list(OTHERS)}
    device = cpu.detect()
    result = machine.header(
        "fresh_machine", device, cpu.usable_cores()[1 : 2 * arguments.at_once : 2]
    )
    found: dict[str, Any] = {}
    for kind, keys in kinds.items():
        found[kind] = all_cases(keys, arguments.seconds, arguments.at_once)
        result[kind] = summary(found[kind])
        print(f"{kind}: {json.dumps(result[kind])}", flush=True)
    result |= {"seconds_each": arguments.seconds, "at_once": arguments.at_once}
    result["cases"] = [{"kind": kind, **one} for kind, cases in found.items() for one in cases]
    name = f"fresh_machine_{device.name.replace('/', '_')}.json"
    machine.write_result(arguments.output or machine.RESULTS / name, result)


if __name__ == "__main__":
    main()
