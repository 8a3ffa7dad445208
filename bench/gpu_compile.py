"""Vector operations on a GPU beside a plain copy and torch.compile, all in graphs, in turn.

Runs on the GPU machine after ``gpu.py evaluate``, and takes the winners from its bundles: machine
code from the jobs, launch plans from the results. Nothing of ours is compiled here. Arrays take
turns so that caches hold nothing of the last call. Prints one JSON; ``--seconds`` ends it early:
problems that were not reached are listed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from gpu_summary import FORMAT

ROUNDS = 15
SAMPLE_US = 400.0
FLUSHED = 200 << 20
MOST_SETS = 24
COPY = "copy"

Call = Callable[[int], object]
Record = dict[str, Any]


def winners(jobs: Path, results: Path, key: Path) -> Iterator[tuple[str, Any]]:
    """Each problem's key and the code of its winner."""
    from skipjack.fleet.bundle.format import Bundle, EntryKind, jobs_with, read_outcome
    from skipjack.fleet.signature import read_key
    from skipjack.runtime.local_kernels import KernelCode

    secret = read_key(key)
    built, found = Bundle.open(jobs, secret), Bundle.open(results, secret)
    for job in jobs_with(found, EntryKind.OUTCOME):
        result = read_outcome(found, job).outcome.result
        code = result.get("code") if result else None
        if result is None or not code:
            continue
        data = built.body(EntryKind.ARTIFACT, code["digest"])
        slots = tuple(code["slots"])
        yield (
            result["problem"],
            KernelCode(data, code["digest"], code["symbol"], code["abi"], slots),
        )


def measure(key: str, code: Any) -> Record:
    """One problem: microseconds of everybody, and ratios of neighbouring rows."""
    import torch

    from skipjack.core import DTYPES
    from skipjack.operations import bytes_moved, get, outputs, parse, tensor_dtype
    from skipjack.runtime.local_kernels import GpuKernel
    from skipjack.solvers.vendor import vector_function

    problem = parse(key)
    inputs, results = get(problem.operation).inputs(problem), outputs(problem)
    moved = bytes_moved(problem)
    count = max(1, min(MOST_SETS, -(-FLUSHED // moved)))

    def make(tensor: Any) -> Any:
        dtype = getattr(torch, DTYPES[tensor_dtype(problem, tensor)].storage)
        return torch.rand(tensor.shape, device="cuda").to(dtype)

    sets = [{one.name: make(one) for one in (*inputs, *results)} for _ in range(count)]
    kernel = GpuKernel(problem, code)
    ours = [
        kernel.bind(*(arrays[one.name] for one in inputs), out=[arrays[r.name] for r in results])
        for arrays in sets
    ]
    function = vector_function(torch, problem)
    assert function is not None
    torch._dynamo.reset()
    compiled: Any = torch.compile(function)
    room = [torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2 * count)]
    calls: dict[str, Call] = {
        "ours": lambda at: ours[at](),
        "torch.compile": lambda at: compiled(sets[at]),
        COPY: lambda at: room[2 * at].copy_(room[2 * at + 1]),
    }
    us = _side_by_side(calls, count)
    medians = {name: median(times) for name, times in us.items()}
    return {
        "problem": key,
        "us": {name: round(value, 3) for name, value in medians.items()},
        "gb_per_s": {name: round(moved / value / 1e3, 1) for name, value in medians.items()},
        "over_compile": _ratio(us["torch.compile"], us["ours"]),
        "over_copy": _ratio(us[COPY], us["ours"]),
    }


def _ratio(slower: Sequence[float], faster: Sequence[float]) -> Record:
    ratios = sorted(a / b for a, b in zip(slower, faster, strict=True))
    spread = {"low": ratios[len(ratios) // 10], "high": ratios[-1 - len(ratios) // 10]}
    return {name: round(v, 4) for name, v in {"ratio": median(ratios), **spread}.items()}


def _side_by_side(calls: dict[str, Call], sets: int) -> dict[str, list[float]]:
    import torch

    cuda: Any = torch.cuda
    graphs = {name: _recorded(call, sets) for name, call in calls.items()}
    us: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 2):
        for name, (graph, count) in graphs.items():
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            cuda.synchronize()
            if turn >= 2:
                us[name].append(start.elapsed_time(end) * 1e3 / count)
    return us


def _recorded(call: Call, sets: int) -> tuple[Any, int]:
    """A row of calls as a graph, about as long for everybody."""
    import torch

    cuda: Any = torch.cuda
    stream = cuda.Stream()
    with cuda.stream(stream):
        for _ in range(3):
            call(0)
        cuda.synchronize()
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for at in range(sets):
            call(at)
        end.record()
        cuda.synchronize()
        once = start.elapsed_time(end) * 1e3 / sets
    count = max(sets, min(200, round(SAMPLE_US / once)))
    count = -(-count // sets) * sets
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        for number in range(count):
            call(number % sets)
    return graph, count


def main() -> None:
    """All problems of the bundle, as far as the time goes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=100.0)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    lines: list[Record] = []
    missed: dict[str, str] = {}
    # The large ones first: what the time does not reach matters least.
    listed = sorted(
        winners(options.jobs, options.results, options.key),
        key=lambda one: "8192x8192" not in one[0],
    )
    for key, code in listed:
        if time.monotonic() > end:
            missed[key] = "no time"
            continue
        try:
            lines.append(measure(key, code))
            print(key, lines[-1]["gb_per_s"], file=sys.stderr, flush=True)
        except Exception as error:  # one that fails must not cost the others
            missed[key] = f"{type(error).__name__}: {error}"[:200]
            print(key, missed[key], file=sys.stderr, flush=True)
    found = {"format": FORMAT, "name": "gpu_compile", "problems": lines, "missed": missed}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
