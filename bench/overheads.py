"""What Skipjack itself costs: building, everything around building and running, starting up.

Prints the numbers and writes ``bench/results/overheads_<arch>.json``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import machine
from shapes import parse_shapes
from skipjack.core import Config, Device, Problem, Promising
from skipjack.native import cpu, llvm
from skipjack.operations import parse
from skipjack.settings import Settings, load_settings
from skipjack.solvers import BuildingSolver, solver_for
from skipjack.tuning import Tuner
from skipjack.tuning.study import timing_cores
from tuned import tune

BUILDS = 50
PROCESSES = 10
SOLVERS = ("nest", "microkernel")
_BUILT = tuple(shape.problem for shape in parse_shapes("192_192_80,112_208_256,208_80_224"))
_TUNED = (
    "matmul:192x192x192",
    "matmul:112x256x64",
    "add:1024x1024",
    "sum:4096x1024/axis=1",
    "bias:1024x1024",
)

Record = dict[str, Any]


def build_times(solver_name: str, device: Device) -> Record:
    """Milliseconds to make and to compile the IR of promising configs, in this process."""
    generating, compiling = [], []
    known: set[str] = set()
    for problem, config in _promising(solver_name, device):
        solver = solver_for(problem, device, solver_name)
        started = time.perf_counter()
        source = solver.lower(problem, device, config)
        lowered = time.perf_counter()
        if source.digest in known:
            continue  # the same code as before would be built once
        known.add(source.digest)
        solver.compile(source)
        compiling.append((time.perf_counter() - lowered) * 1e3)
        generating.append((lowered - started) * 1e3)
        if len(known) == BUILDS:
            break
    both = np.add(generating, compiling)
    return {
        "builds": len(known),
        "ir_ms": round(float(np.median(generating)), 3),
        "llvm_ms": round(float(np.median(compiling)), 3),
        "total_ms": round(float(np.median(both)), 3),
        "total_p90_ms": round(float(np.percentile(both, 90)), 3),
    }


def _promising(solver_name: str, device: Device) -> list[tuple[Problem, Config]]:
    """The problems' promising configs in turn; more than enough, as some share their code."""
    columns = []
    for problem in _BUILT:
        solver: BuildingSolver = solver_for(problem, device, solver_name)
        space = solver.space(problem, device)
        configs = space.promising(10 * BUILDS) if isinstance(space, Promising) else ()
        columns.append([(problem, config) for config in configs])
    most = max(len(column) for column in columns)
    return [column[row] for row in range(most) for column in columns if row < len(column)]


def tunings(tuner: Tuner, seconds: float) -> list[Record]:
    """Share of the wall time in which nothing was built and nothing ran, workers being warm."""
    found = []
    for key in _TUNED:
        done = tune(tuner, parse(key), "nest", seconds)
        found.append({"problem": key, "seconds": seconds, **done.record()})
        print(
            f"  {key:<22} {done.wall_seconds:5.2f} s, {len(done.result.trials):4d} trials, "
            f"overhead {done.result.overhead:6.1%}",
            flush=True,
        )
    return found


def process_ms(command: Sequence[str]) -> float:
    """Median wall time of a command from start to end."""
    times = []
    for _ in range(PROCESSES):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - started) * 1e3)
    return round(float(np.median(times)), 1)


def starting(settings: Settings) -> tuple[float, Tuner]:
    """Seconds until the workers are there, with the peaks known; the tuner is left open."""
    with Tuner(settings, None, print) as first:
        first.context.peaks()
    tuner = Tuner(settings, None, print)
    started = time.perf_counter()
    tuner.__enter__()
    tuner.context.warm_up()
    return time.perf_counter() - started, tuner


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="budget of each tuning")
    parser.add_argument("--core", type=int, help="the core to time on (default: the last)")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    machine.library_threads(1)
    device = cpu.detect()
    llvm.binding()
    result: Record = {"builds": {}}
    for name in SOLVERS:
        record = result["builds"][name] = build_times(name, device)
        print(
            f"build with {name:<12} {record['total_ms']:6.2f} ms: IR {record['ir_ms']:.2f}, "
            f"LLVM {record['llvm_ms']:.2f} (medians of {record['builds']})"
        )
    with tempfile.TemporaryDirectory(prefix="skipjack-bench-") as directory:
        settings = load_settings(user_dir=directory, core=args.core)
        (core,) = timing_cores(settings, 1)
        seconds, tuner = starting(settings)
        try:
            result["session_start_seconds"] = round(seconds, 3)
            print(f"session start          {seconds:6.2f} s")
            result["tunings"] = tunings(tuner, args.seconds)
        finally:
            tuner.__exit__(None, None, None)
    overheads = [record["overhead"] for record in result["tunings"]]
    result["median_overhead"] = round(float(np.median(overheads)), 4)
    program = str(Path(sys.executable).parent / "skipjack")
    result["help_ms"] = process_ms([program, "--help"])
    result["python_ms"] = process_ms([sys.executable, "-c", "pass"])
    print(
        f"skipjack --help        {result['help_ms']:6.1f} ms (Python alone {result['python_ms']})"
    )
    path = args.json or machine.RESULTS / f"overheads_{device.arch}.json"
    machine.write_result(path, machine.header("overheads", device, [core]) | result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
