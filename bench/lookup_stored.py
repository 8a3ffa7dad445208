"""What it costs to open stored results, to find one, and to add one, among few and among many.

Beside the bank: one sorted file that is read into a dictionary as a whole, and written as a whole
by whoever adds an entry; and the results that Kernel Tuner stores. All are timed in turns on the
same disk, Kernel Tuner in a process of its own. What takes seconds is done once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernel_tuner_peer import KernelTunerPeer
from skipjack.bank import Bank, BankEntry, Evidence, LaunchData, stronger
from skipjack.core import TimingProtocol
from skipjack.storage import atomic_write

DEVICE = "cpu:znver4/1:0123456789ab"
BANK, FILE, KERNEL_TUNER = "Skipjack's bank", "one file and a dictionary", "Kernel Tuner"
OPEN, LOOK, ADD = "open and find one", "find another", "add one"
_SLOW_S = 0.2
"""What takes longer is not repeated."""
_CALLS = 16
"""Of what is found again, in one round."""

GAIN = {"ratio": 1.5123, "low": 1.4123, "high": 1.6123, "pairs": 20, "left_out": 0}

Act = Callable[[int], float]
"""Do it once more; told how often it was done, gives the seconds of one time."""


def entry(number: int) -> BankEntry:
    """As a tuning writes it: about as long, and one of its own for each number."""
    sizes = f"{number % 97 + 1}x{number // 97 + 1}x512"
    return BankEntry(
        problem=f"matmul:{sizes}:f32",
        device=DEVICE,
        device_name="znver4/1",
        solver="microkernel",
        solver_version=3,
        config={"tile_m": 8, "tile_n": 32, "block_k": 256, "order": "nkm", "pack": True},
        time_ns=123456.7 + number,
        default_ns=234567.8,
        vendor_ns=145678.9,
        vendor="numpy",
        speedup={"default": GAIN, "vendor": GAIN},
        evidence=Evidence(
            {
                **{"alpha": 0.01, "min_effect": 0.01, "samples": 120, "set_aside": 3},
                **{"spread": 0.0123, "outcome": "banked", "vector_bytes": 64, "ties": []},
                **{"model": "a CPU of sixteen cores", "study": "0123456789abcdef"},
                **{"baseline": {"name": "numpy", **GAIN}, "as_called": GAIN},
            }
        ),
        created="2026-01-01T00:00:00.000000Z",
        protocol=TimingProtocol().key,
        toolchain="llvm-20",
        output="ab" * 32,
        launch=LaunchData("cd" * 32, "kernel", "slots", ("a", "b", "out", number), 4096, "cpu:v4"),
    )


class RewrittenFile:
    """One sorted file, read into a dictionary and written as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[tuple[str, str, str, str], BankEntry]:
        """Everything."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return {one.key: one for one in map(BankEntry.from_line, lines)}

    def put(self, entry: BankEntry) -> None:
        """Everything once more, with one entry."""
        known = self.read()
        known[entry.key] = stronger(known.get(entry.key, entry), entry)
        text = "".join(f"{known[key].line}\n" for key in sorted(known))
        atomic_write(self._path, text.encode())


def measure(sizes: Sequence[int], rounds: int = 40) -> dict[str, Any]:
    """All sizes; and why who is not there is not."""
    with KernelTunerPeer() as peer:
        found = [_of_size(size, rounds, peer) for size in sizes]
        return {
            "sizes": found,
            "kernel_tuner": peer.version or None,
            "absent": {KERNEL_TUNER: peer.absent} if peer.absent else {},
        }


def _of_size(size: int, rounds: int, peer: KernelTunerPeer) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ways = {BANK: _bank_acts(directory, size), FILE: _file_acts(directory, size)}
        if not peer.absent:
            peer.seconds("make", size)
            ways[KERNEL_TUNER] = {
                OPEN: lambda _: peer.seconds("open"),
                LOOK: lambda _: peer.seconds("look", _CALLS),
                ADD: lambda _: peer.seconds("add"),
            }
        rows = {}
        for what in (OPEN, LOOK, ADD):
            rows[what] = in_turns({way: acts[what] for way, acts in ways.items()}, rounds)
    return {"entries": size, "seconds": rows}


def _bank_acts(directory: Path, size: int) -> dict[str, Act]:
    bank = Bank.open(directory)
    bank.add(entry(number) for number in range(size))
    wanted = [entry(size * place // 64).key for place in range(64)]

    def look(number: int) -> None:
        for place in range(_CALLS):
            assert bank.lookup(*wanted[(number * _CALLS + place) % 64]) is not None

    return {
        OPEN: _timed(lambda number: Bank.open(directory).lookup(*wanted[number % 64])),
        LOOK: _timed(look, _CALLS),
        ADD: _timed(lambda number: bank.put(entry(10**7 + number))),
    }


def _file_acts(directory: Path, size: int) -> dict[str, Act]:
    path = directory / "rewritten.jsonl"
    atomic_write(path, "".join(f"{entry(number).line}\n" for number in range(size)).encode())
    kept, wanted = RewrittenFile(path), entry(size // 2).key
    known = kept.read()

    def look(_: int) -> None:
        for _ in range(_CALLS):
            known.get(wanted)

    return {
        OPEN: _timed(lambda _: kept.read()[wanted]),
        LOOK: _timed(look, _CALLS),
        ADD: _timed(lambda number: kept.put(entry(10**7 + number))),
    }


def _timed(act: Callable[[int], object], calls: int = 1) -> Act:
    def timed(number: int) -> float:
        started = time.perf_counter()
        act(number)
        return (time.perf_counter() - started) / calls

    return timed


def in_turns(acts: Mapping[str, Act], rounds: int) -> dict[str, dict[str, float]]:
    """The median of each with the tenth and the ninetieth percentile, and how often it was done."""
    taken: dict[str, list[float]] = {way: [] for way in acts}
    for number in range(rounds):
        for way, act in acts.items():
            if not taken[way] or taken[way][0] < _SLOW_S:
                taken[way].append(act(number))
    return {way: spread(values) | {"times": len(values)} for way, values in taken.items()}


def spread(values: Sequence[float], digits: int = 9) -> dict[str, float]:
    """The median with the tenth and the ninetieth percentile."""
    low, middle, high = (round(float(one), digits) for one in np.percentile(values, (10, 50, 90)))
    return {"median": middle, "low": low, "high": high}


def lines(result: Mapping[str, Any]) -> list[str]:
    """The result for people."""
    text = []
    for one in result["sizes"]:
        text.append(f"among {one['entries']:,}")
        for what, ways in one["seconds"].items():
            times = ", ".join(f"{way} {seconds(row['median'])}" for way, row in ways.items())
            text.append(f"  {what}: {times}")
    return [*text, *(f"{who} is not there: {why}" for who, why in result["absent"].items())]


def seconds(value: float) -> str:
    """In the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value * 1e6:.2f} µs"
