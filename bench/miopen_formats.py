"""How fast databases of MIOpen are read and written: 200,000 generated records of each format.

``python bench/miopen_formats.py``. Every round reads a file and writes it again, with all items cut
out in between where that is timed; the formats take turns. Given are the medians of the rounds on
the clock and on the processor: the latter says more where the machine is shared.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from machine import RESULTS, header, write_result
from skipjack.interop.miopen import (
    FAMILIES,
    ConvertOptions,
    DatabaseRecord,
    FindKey,
    FindResultLine,
    RecordItem,
    algorithm_name,
    check_paths,
    convert,
    find_item,
    find_results,
    legacy_item,
    read_perf_sqlite,
    read_text_db,
    write_perf_sqlite,
    write_text_db,
)
from skipjack.interop.miopen.conversion import ValueFormat
from skipjack.native import cpu

_PER_RECORD = 4


def keys(count: int, rng: np.random.Generator) -> Iterator[FindKey]:
    """Different ones."""
    for number in range(count):
        size, direction = 7 + number % 50, "FBW"[number % 3]
        channels = (16 + number // 3, 32 + int(rng.integers(512)))
        first, second = ((each, size, size) for each in channels)
        steps = ((1, 1), (1, 1), (1, 1))
        yield FindKey(first, second, (3, 3), 32, *steps, 0, ("NCHW",), "FP32", direction)


def results(key: FindKey, rng: np.random.Generator) -> list[FindResultLine]:
    """Of a solver of each of several families."""
    return [
        FindResultLine(
            f"ConvSolver{family}",
            float(rng.uniform(1, 100)),
            0,
            algorithm_name(key.direction, family),
        )
        for family in FAMILIES[:_PER_RECORD]
    ]


def perf_items(rng: np.random.Generator) -> list[RecordItem]:
    """Parameters of two solvers."""
    numbers = ",".join(map(str, rng.integers(1, 64, 9)))
    return [
        RecordItem("ConvAsm1x1U", numbers),
        RecordItem("ConvHipImplicitGemmV4R1Fwd", f"{numbers},128"),
    ]


def generate(folder: Path, count: int, rng: np.random.Generator) -> None:
    """A file of each format."""
    found = [(key, results(key, rng)) for key in keys(count, rng)]
    for name, item in (("current", find_item), ("legacy", legacy_item)):
        records = [DatabaseRecord(key.text, map(item, lines)) for key, lines in found]
        write_text_db(folder / f"{name}.fdb.txt", records)
    perf = [DatabaseRecord(key.perf_text, perf_items(rng)) for key, _ in found]
    write_text_db(folder / "perf.db.txt", perf)
    write_perf_sqlite(folder / "perf.db", perf)
    together = folder / "together"
    together.mkdir()
    shutil.copy(folder / "current.fdb.txt", together / "gfx90878.HIP.fdb.txt")
    shutil.copy(folder / "perf.db.txt", together / "gfx90878.db.txt")


def steps(folder: Path) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""

    def again(name: str) -> Callable[[], object]:
        return lambda: write_text_db(folder / f"new_{name}", read_text_db(folder / name))

    def ranked(name: str) -> Callable[[], object]:
        return lambda: sum(len(find_results(each)) for each in read_text_db(folder / name))

    def become(name: str, target: str, values: ValueFormat | None = None) -> Callable[[], object]:
        options = ConvertOptions(values)
        return lambda: convert(folder / name, folder / target, options)

    sqlite = folder / "perf.db"
    return {
        "find-db read and written": again("current.fdb.txt"),
        "find-db read, results as numbers": ranked("current.fdb.txt"),
        "legacy find-db read and written": again("legacy.fdb.txt"),
        "legacy find-db read, results as numbers": ranked("legacy.fdb.txt"),
        "perf-db read and written as text": again("perf.db.txt"),
        "perf-db read and written as SQLite": lambda: write_perf_sqlite(
            folder / "new.db", read_perf_sqlite(sqlite)
        ),
        "legacy find-db to current values": become("legacy.fdb.txt", "new.fdb.txt", "current"),
        "find-db to legacy values": become("current.fdb.txt", "new.fdb.txt", "legacy"),
        "find-db to JSON lines": become("current.fdb.txt", "find.jsonl"),
        "JSON lines to find-db": become("find.jsonl", "new.fdb.txt"),
        "JSON lines copied": become("find.jsonl", "copy.jsonl"),
        "legacy find-db to JSON lines": become("legacy.fdb.txt", "legacy.jsonl"),
        "JSON lines to legacy find-db": become("legacy.jsonl", "new.fdb.txt"),
        "perf-db to SQLite": become("perf.db.txt", "new.db"),
        "SQLite to perf-db": become("perf.db", "new.db.txt"),
        "perf-db to JSON lines": become("perf.db.txt", "perf.jsonl"),
        "JSON lines to perf-db": become("perf.jsonl", "new.db.txt"),
        "check of a find-db": lambda: check_paths([folder / "current.fdb.txt"]),
        "check of a legacy find-db": lambda: check_paths([folder / "legacy.fdb.txt"]),
        "check of a perf-db": lambda: check_paths([folder / "perf.db.txt"]),
        "check of a find-db and a perf-db together": lambda: check_paths([folder / "together"]),
    }


def measure(folder: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the clock and on the processor, for every step and round."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, step in steps(folder).items():
            clock, processor = time.perf_counter(), time.process_time()
            step()
            spent = (time.perf_counter() - clock, time.process_time() - processor)
            taken.setdefault(name, []).append(spent)
    return taken


def _case(name: str, taken: list[tuple[float, float]], count: int) -> dict[str, Any]:
    seconds, cpu = (statistics.median(each) for each in zip(*taken, strict=True))
    return {
        "case": name,
        "records": count,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "lines_per_second": round(count / seconds),
    }


def main() -> None:
    """Print a line for each case and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "miopen_formats.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, asked.lines, np.random.default_rng(0))
        sizes = {path.name: path.stat().st_size for path in sorted(folder.glob("*.*"))}
        taken = measure(folder, asked.rounds)
    cases = [_case(case, times, asked.lines) for case, times in taken.items()]
    for case in cases:
        print("{case:42} {seconds:6.2f} s, {cpu_seconds:6.2f} s of CPU".format(**case))
    facts = {"bytes": sizes, "rounds": asked.rounds, "cases": cases}
    write_result(asked.output, header("miopen_formats", cpu.detect(), cpu.usable_cores()) | facts)


if __name__ == "__main__":
    main()
