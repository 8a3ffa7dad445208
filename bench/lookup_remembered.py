"""What an answer costs that a program was given before, beside what else remembers.

All are timed in turns in this process. What a lookup costs beyond the call is its time less that
of a function with the same arguments that does nothing. `triton.autotune` is timed up to the
launch: its kernel is a stand-in that does nothing, so that no GPU is needed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import skipjack
from lookup_stored import spread
from skipjack.bank import Bank, BankEntry

HIT, MISS, ALONE = "lookup, from a bank", "lookup, from no bank", "the call alone"
DICT, CACHE = "a dictionary", "lru_cache"
AUTOTUNE = "triton.autotune, without the launch"
CALLS, ROUNDS = 2_000, 60
MISSED = "matmul:61x67x71"
"""That no bank knows."""

_BEGIN, _END = "/skipjack-begin", "/skipjack-end"
_COUNTED = f"""
import os, sys, time
import skipjack
from skipjack.runtime import bank_lookup
bank_lookup._INTERVAL_S = 1e9  # however long it takes: files are not to be looked at again
for key in sys.argv[1:]:
    while skipjack.lookup(key).source == "library":  # until a kernel is verified
        time.sleep(0.05)
os.access({_BEGIN!r}, os.F_OK)
for _ in range(1000):
    for key in sys.argv[1:]:
        skipjack.lookup(key)
os.access({_END!r}, os.F_OK)
"""


def measure(known: BankEntry, rounds: int = ROUNDS) -> dict[str, Any]:
    """Everybody in turns, in microseconds; and the system calls of 2,000 remembered answers."""
    with _banked(known):
        ways = _ways(known.problem)
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for call in ways.values():
            _each_us(call)
        for _ in range(rounds):
            for way, call in ways.items():
                taken[way].append(_each_us(call))
        counted = system_calls(known.problem, MISSED)
    rows = {way: spread(times, 4) for way, times in taken.items()}
    for way in (HIT, MISS):
        more = [one - base for one, base in zip(taken[way], taken[ALONE], strict=True)]
        rows[way]["beyond_call"] = round(statistics.median(more), 4)
    return {
        "us": rows,
        "system_calls": counted,
        "absent": {} if AUTOTUNE in rows else {AUTOTUNE: "Triton is not installed"},
    }


@contextmanager
def _banked(known: BankEntry) -> Iterator[None]:
    """A user directory that has the one entry."""
    before = os.environ.get("SKIPJACK_USER_DB_PATH")
    with tempfile.TemporaryDirectory() as name:
        Bank.open(Path(name)).put(known)
        os.environ["SKIPJACK_USER_DB_PATH"] = name
        try:
            yield
        finally:
            os.environ.pop("SKIPJACK_USER_DB_PATH")
            if before is not None:
                os.environ["SKIPJACK_USER_DB_PATH"] = before


def _ways(key: str) -> dict[str, Callable[[], object]]:
    assert _answered(key) == "user"
    assert _answered(MISSED) not in ("user", "system"), f"{MISSED} should be in no bank"
    known = {(key, None, None): object()}

    @functools.lru_cache(maxsize=256)
    def remembered(problem: str, dtype: str | None = None) -> object:
        return object()

    ways = {
        ALONE: lambda: _nothing(key),
        HIT: lambda: skipjack.lookup(key),
        MISS: lambda: skipjack.lookup(MISSED),
        DICT: lambda: known.get((key, None, None)),
        CACHE: lambda: remembered(key),
    }
    if importlib.util.find_spec("triton"):
        ways[AUTOTUNE] = autotuned()
    return ways


def _answered(key: str) -> str:
    """The source of a lasting answer: while a kernel is verified, a library stands in for it."""
    while True:
        found = skipjack.lookup(key)
        assert found is not None
        if found.source != "library":
            return found.source
        time.sleep(0.05)


def _nothing(
    problem: str,
    *,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    plugins: object = (),
    settings: object = None,
    solver: str | None = None,
    config: object = None,
    strict: bool = False,
    protocol: str | None = None,
) -> object:
    """The arguments of `skipjack.lookup`."""
    return problem


class _StandIn:
    """A kernel that does nothing, with the arguments of a product."""

    arg_names = ("a", "b", "out", "m", "n", "k")

    def __init__(self) -> None:
        def kernel(a: object, b: object, out: object, m: int, n: int, k: int) -> None: ...

        self.fn = kernel

    def run(self, *arguments: object, **named: object) -> None:
        """The launch, which is left out."""


def autotuned() -> Callable[[], object]:
    """A call of a kernel that `triton.autotune` has chosen a config for."""
    triton: Any = importlib.import_module("triton")
    tuner = importlib.import_module("triton.runtime.autotuner").Autotuner(
        *(_StandIn(), _StandIn.arg_names),
        [triton.Config({"BLOCK": size}) for size in (16, 32)],
        *(["m", "n", "k"], None, None),
        do_bench=lambda call, quantiles: [1.0, 1.0, 1.0],
    )
    arrays = [_array() for _ in range(3)]

    def call() -> object:
        return tuner.run(*arrays, 64, 64, 64, grid=(1,))

    call()
    assert len(tuner.cache) == 1
    return call


def _array() -> object:
    """As Triton is given them, where PyTorch is there."""
    array = np.zeros((64, 64), np.float16)
    if importlib.util.find_spec("torch"):
        return importlib.import_module("torch").from_numpy(array)
    return array


def _each_us(call: Callable[[], object], calls: int = CALLS) -> float:
    started = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - started) / calls / 1e3


def system_calls(*keys: str) -> int | None:
    """What 1,000 remembered answers of each key make, of a fresh process; None without strace."""
    if shutil.which("strace") is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        trace = Path(name) / "trace"
        command = ["strace", "-o", str(trace), sys.executable, "-c", _COUNTED, *keys]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = trace.read_text().splitlines() if trace.exists() else []
    places = [at for at, line in enumerate(made) if _BEGIN in line or _END in line]
    if len(places) != 2:  # the system lets nobody be traced
        print(f"strace gave nothing: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    return places[1] - places[0] - 1


def lines(result: Mapping[str, Any]) -> list[str]:
    """The result for people."""
    text = []
    for way, row in result["us"].items():
        more = f", {row['beyond_call']:.2f} beyond the call" if "beyond_call" in row else ""
        text.append(f"{way:<36}{row['median']:>8.2f} us{more}")
    counted = result["system_calls"]
    text.append(f"system calls of 2,000: {'not counted' if counted is None else counted}")
    return text
