"""What it costs to find what is known: one entry of a bank, among few and among very many.

First what a program sees (`lookup_program`), which is kept as a result file. Then the bank itself:
each number stands beside what the same took when a bank was one sorted file: parsed as a whole by
whoever reads it, and rewritten as a whole by whoever adds an entry. Both are timed in turns on the
same entries and the same disk; ratios say how many times less the bank of today takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import lookup_program
import machine
from skipjack.bank import Bank, BankEntry, Evidence, LaunchData, stronger
from skipjack.core.protocol import TimingProtocol
from skipjack.native import cpu
from skipjack.storage import atomic_write

SIZES = (1, 1_000, 100_000)
ADDED = 1_000
DEVICE = "cpu:znver4/1:0123456789ab"
_SLOW_S = 20.0
"""Where once takes longer, that is not repeated."""

GAIN = {"ratio": 1.5123, "low": 1.4123, "high": 1.6123, "pairs": 20, "left_out": 0}


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
    """A bank as it was kept before: one sorted file, read and written as a whole."""

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


@dataclass(frozen=True)
class Row:
    """One thing that is done, in seconds each time."""

    what: str
    now_s: float
    before_s: float

    def __str__(self) -> str:
        times = f"{_text(self.now_s):>10}  {_text(self.before_s):>10}"
        return f"{self.what:<44}{times}  {self.before_s / self.now_s:>10,.1f}"


def _text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1e6:.1f} us"


def median_s(act: Callable[[int], object], times: int) -> float:
    """Of doing it again and again; told how often it was done."""
    taken: list[float] = []
    for number in range(times):
        started = time.perf_counter()
        act(number)
        taken.append(time.perf_counter() - started)
        if taken[-1] > _SLOW_S:
            break
    return statistics.median(taken)


def rows_of(size: int, directory: Path) -> list[Row]:
    """Looking up and adding in a bank of so many entries."""
    bank = Bank.open(directory)
    bank.add(entry(number) for number in range(size))
    old = RewrittenFile(directory / "before.jsonl")
    atomic_write(directory / "before.jsonl", bank.path.read_bytes())
    few = 1 if size >= SIZES[-1] else 20
    wanted = [entry(size * place // 64).key for place in range(64)]

    def look(number: int) -> object:
        found = bank.lookup(*wanted[number % 64])
        assert found is not None
        return found

    def parse(number: int) -> object:
        return old.read()[wanted[number % 64]]

    def open_and_look(number: int) -> object:
        return Bank.open(directory).lookup(*wanted[number % 64])

    before_s = median_s(parse, few)
    look(0)
    among = f"among {size:,}"
    return [
        Row(f"the first look-up {among}", median_s(open_and_look, 200), before_s),
        Row(f"another key {among}", median_s(look, 64), before_s),
        Row(
            f"an entry added {among}",
            median_s(lambda number: bank.put(entry(10**7 + number)), 50),
            median_s(lambda number: old.put(entry(10**7 + number)), few),
        ),
    ]


def adding_many(count: int, directory: Path) -> Row:
    """Entries one by one into a bank that was empty; the old way by its cost half way through."""
    bank, half = Bank.open(directory), count // 2
    started = time.perf_counter()
    for number in range(count):
        bank.put(entry(number))
    now_s = time.perf_counter() - started
    old = RewrittenFile(directory / "before.jsonl")
    lines = "".join(f"{entry(number).line}\n" for number in range(half))
    atomic_write(directory / "before.jsonl", lines.encode())
    before_s = count * median_s(lambda _: old.put(replace(entry(half), created="now")), 5)
    return Row(f"{count:,} entries added one by one", now_s, before_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and write the result of the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 1,000 entries")
    parser.add_argument("--json", type=Path, help="write the result here")
    args = parser.parse_args(arguments)
    quick = args.quick
    sizes = SIZES[:2] if quick else (SIZES[0], SIZES[-1])
    result = lookup_program.measure(sizes, entry)
    print(*lookup_program.lines(result), "", sep="\n")
    if args.json or not quick:
        device = cpu.detect()
        path = args.json or machine.RESULTS / f"lookup_{device.arch}.json"
        header = machine.header("lookup", device, sorted(os.sched_getaffinity(0)))
        machine.write_result(path, header | result)
    print(f"{'':<44}{'now':>10}  {'before':>10}  {'ratio':>10}")
    for size in SIZES[:2] if quick else SIZES:
        with tempfile.TemporaryDirectory() as name:
            print(*rows_of(size, Path(name)), sep="\n")
    with tempfile.TemporaryDirectory() as name:
        print(adding_many(100 if quick else ADDED, Path(name)))


if __name__ == "__main__":
    main()
