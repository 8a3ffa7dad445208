"""What a program sees of a bank: the first answer, a repeated one, and what a call costs.

The first answer is that of a fresh process, after ``import numpy, llvmlite.binding``, timed in that
process: wall time, and CPU time, which other programs disturb less. A call from Python is timed in
turns with the same kernel called by native code; what it costs more is a median of differences.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import skipjack
from lookup_stored import spread
from skipjack.bank import Bank, BankEntry
from skipjack.native import NativeTimer, cpu, llvm
from skipjack.operations import get, parse
from skipjack.runtime.local_kernels import TunedKernel
from skipjack.settings import load_settings
from skipjack.solvers import find_solver

KEY = "matmul:64x64x64"
CALLED = ("add:64", "matmul:16x16x16")
PROCESSES, ROUNDS, ROUND_NS = 9, 60, 300_000

_FRESH = """
import numpy, llvmlite.binding, json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import skipjack
kernel = skipjack.lookup(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
assert kernel.source == "user", kernel.source
modules = sum(name.split(".")[0] == "skipjack" for name in sys.modules)
times, calls = [], 2000
for _ in range(50):
    started = time.perf_counter()
    for _ in range(calls):
        skipjack.lookup(sys.argv[1])
    times.append((time.perf_counter() - started) / calls)
print(json.dumps({"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "modules": modules,
                  "repeat_us": sorted(times)[25] * 1e6}))
"""


def known_entry(key: str) -> BankEntry:
    """A plain kernel of the problem for this CPU."""
    problem, device = parse(key), cpu.detect()
    solver = find_solver("nest")
    return BankEntry(
        problem=problem.key,
        device=device.class_key,
        device_name=device.name,
        solver=solver.name,
        solver_version=solver.version,
        config=dict(solver.space(problem, device).default()),
        time_ns=1000.0,
        default_ns=1000.0,
        vendor_ns=None,
        vendor="",
        speedup={},
    )


def answers(sizes: Sequence[int], others: Callable[[int], BankEntry]) -> list[dict[str, Any]]:
    """The first and a repeated answer with so many entries in the bank; all sizes in turns."""
    with ExitStack() as stack:
        places = {}
        for size in sizes:
            places[size] = stack.enter_context(tempfile.TemporaryDirectory())
            bank = Bank.open(Path(places[size]))
            bank.add([known_entry(KEY), *(others(number) for number in range(size - 1))])
            # Builds and verifies the kernel; then a process that leaves byte code.
            skipjack.lookup(KEY, strict=True, settings=load_settings(user_dir=places[size]))
            _fresh(places[size])
        taken: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
        for _ in range(PROCESSES):
            for size, place in places.items():
                taken[size].append(_fresh(place))
    return [
        {
            "entries": size,
            "modules": int(found[0]["modules"]),
            "first_cpu_ms": spread([one["cpu_ms"] for one in found], 4),
            "first_wall_ms": spread([one["wall_ms"] for one in found], 4),
            "repeat_us": spread([one["repeat_us"] for one in found], 4),
        }
        for size, found in taken.items()
    ]


def _fresh(directory: str) -> dict[str, float]:
    """What a fresh process with this user directory tells."""
    environment = {**os.environ, "SKIPJACK_USER_DB_PATH": directory}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _FRESH, KEY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def call_costs(key: str) -> dict[str, Any]:
    """What a call of a kernel costs in each way, in turns; of ours, how much more than native."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["SKIPJACK_USER_DB_PATH"] = name
        Bank.open(Path(name)).put(known_entry(key))
        kernel = skipjack.lookup(key, strict=True)
        assert isinstance(kernel, TunedKernel)
        calls, native = _ways(key, kernel)
        times: dict[str, list[float]] = {way: [] for way in ("native", *calls)}
        counts = {way: max(20, int(ROUND_NS / 1e3 / _loop_us(calls[way], 200))) for way in calls}
        for _ in range(ROUNDS):
            times["native"].append(native())
            for way, call in calls.items():
                times[way].append(_loop_us(call, counts[way]))
    rows = {way: spread(taken, 4) for way, taken in times.items()}
    for way in ("bind", "checked", "checked, out="):
        more = [one - base for one, base in zip(times[way], times["native"], strict=True)]
        rows[way]["over_native_us"] = round(statistics.median(more), 4)
        rows[way]["over_low_us"], rows[way]["over_high_us"] = (
            round(float(value), 4) for value in np.percentile(more, (10, 90))
        )
    return {"problem": key, "us": rows}


def _loop_us(call: Callable[[], object], count: int) -> float:
    started = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - started) / count / 1e3


@functools.cache
def _loader() -> llvm.Loader:
    """Kept, as the timer's code is."""
    return llvm.Loader()


Ways = Mapping[str, Callable[[], object]]


def _ways(key: str, kernel: TunedKernel) -> tuple[Ways, Callable[[], float]]:
    """The ways to call it from Python; and what times the native call, in microseconds."""
    problem = parse(key)
    rng = np.random.default_rng(0)
    inputs = get(problem.operation).inputs(problem)
    a, b = (rng.random(tensor.shape, np.float32) for tensor in inputs)
    out = np.empty_like(a)
    for _ in range(200):
        kernel(a, b)  # from here on the check is native
    bound = kernel.bind(a, b, out=out)
    library = np.add if problem.operation == "add" else np.matmul
    ways: dict[str, Callable[[], object]] = {
        "bind": bound,
        "checked": functools.partial(kernel, a, b),
        "checked, out=": functools.partial(kernel, a, b, out=out),
        "NumPy": functools.partial(library, a, b),
        "NumPy, out=": functools.partial(library, a, b, out=out),
    }
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        function = torch.add if problem.operation == "add" else torch.mm
        ways["PyTorch"] = functools.partial(function, x, y)
    timer = NativeTimer(_loader(), cpu.target_of(cpu.detect()))
    address, slots = kernel.address, bound.slots_address
    count = max(20, int(ROUND_NS / max(1.0, float(timer.sample(address, slots, 200, 3).min()))))
    return ways, lambda: float(timer.sample(address, slots, count, 1)[0]) / 1e3


def measure(sizes: Sequence[int], others: Callable[[int], BankEntry]) -> dict[str, Any]:
    """Everything."""
    return {
        "problem": KEY,
        "answers": answers(sizes, others),
        "calls": [call_costs(key) for key in CALLED],
    }


def lines(result: Mapping[str, Any]) -> list[str]:
    """The result for people."""
    text = []
    for one in result["answers"]:
        first, repeat = one["first_cpu_ms"], one["repeat_us"]
        text.append(
            f"among {one['entries']:,}: the first answer {first['median']:.0f} ms of CPU time "
            f"[{first['low']:.0f}, {first['high']:.0f}], {one['first_wall_ms']['median']:.0f} ms; "
            f"repeated {repeat['median']:.2f} us; {one['modules']} of our modules"
        )
    for one in result["calls"]:
        text.append(one["problem"])
        for way, row in one["us"].items():
            more = f", {row['over_native_us']:+.2f} us" if "over_native_us" in row else ""
            text.append(f"  {way:<16}{row['median']:>8.2f} us{more}")
    return text
