"""What a call from Python costs: a tuned kernel called plainly, with ``out=``, and bound; NumPy.

Prints a table of NumPy's time over that of each, timed in turns in one process. Give problems, or
take those of `PROBLEMS`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import machine
import skipjack
from skipjack.core import Arrays, Problem
from skipjack.execute import Block, paired_ratio, summarize
from skipjack.execute.cpu import ThreadCounters
from skipjack.execute.cpu.kernels import PythonKernel, take_samples
from skipjack.native import aligned
from skipjack.operations import get, outputs
from skipjack.solvers.vendor.cpu import NumpySolver

PROBLEMS = ("add:64", "add:4096", "relu:4096", "matmul:64x64x64", "matmul:128x128x128")
ROUNDS, SAMPLES, SAMPLE_NS = 40, 4, 200_000

Calls = Mapping[str, Callable[[], object]]


def arrays_of(problem: Problem) -> Arrays:
    """Inputs at random, outputs empty."""
    rng = np.random.default_rng(0)
    inputs = get(problem.operation).inputs(problem)
    made = {t.name: rng.uniform(-1, 1, t.shape).astype("float32") for t in inputs}
    return made | {t.name: aligned(t.shape, "float32") for t in outputs(problem)}


def calls_of(key: str, seconds: float) -> Calls:
    """NumPy first."""
    result = skipjack.tune(key, seconds=seconds)
    kernel, problem = result.kernel(), result.problem
    arrays = arrays_of(problem)
    inputs = [arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    out = arrays[outputs(problem)[0].name]
    return {
        "NumPy, out=": NumpySolver().bind(problem, arrays),
        "kernel(a, b)": lambda: kernel(*inputs),
        "kernel(a, b, out=)": lambda: kernel(*inputs, out=out),
        "bound": kernel.bind(*inputs, out=out),
    }


def timed(calls: Calls) -> dict[str, list[Block]]:
    """Blocks of all, in turns."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    watch = ThreadCounters(core)
    kernels = {name: PythonKernel(call) for name, call in calls.items()}
    counts = {
        name: max(1, int(SAMPLE_NS / float(kernel.sample(20, 3).min())))
        for name, kernel in kernels.items()
    }
    blocks: dict[str, list[Block]] = {name: [] for name in kernels}
    for round_ in range(ROUNDS):
        for number, (name, kernel) in enumerate(kernels.items()):
            taken = take_samples([kernel], counts[name], SAMPLES, watch)
            block = Block(
                number, round_, counts[name], taken.times_ns, (), taken.disturbed, taken.dropped
            )
            blocks[name].append(block)
    return blocks


def row(key: str, blocks: Mapping[str, Sequence[Block]]) -> str:
    """Microseconds of each; of ours also how many times faster than NumPy."""
    library, *ours = blocks.values()
    cells = [key, f"{summarize(library).time_ns / 1e3:.2f} µs"]
    for mine in ours:
        gain = paired_ratio(library, mine)
        cells.append(f"{summarize(mine).time_ns / 1e3:.2f} µs, {gain.ratio:.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Tune, time, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--seconds", type=float, default=2.0, help="for tuning each")
    arguments = parser.parse_args()
    machine.library_threads(1)
    heading = ["problem", "NumPy, `out=`", "`kernel(a, b)`", "`kernel(a, b, out=c)`", "`bind`"]
    print(f"| {' | '.join(heading)} |")
    print("|---" * len(heading) + "|")
    for key in arguments.problems:
        print(row(key, timed(calls_of(key, arguments.seconds))), flush=True)


if __name__ == "__main__":
    main()
