"""Kernel Tuner's stored results, timed on request.

This script runs inside an environment of its own and shares nothing with Skipjack. Its argument is
a folder for its files. Each line of its input is ``["make", entries]``, ``["open"]``,
``["look", calls]`` or ``["add"]``; it answers each with a line of JSON: seconds, of one call.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kernel_tuner.integration import TuneResults, store_results

DEVICE = "znver4_1"
CONFIG = {"tile_m": 8, "tile_n": 32, "block_k": 256, "order": "nkm", "pack": True}


def size_of(number: int) -> tuple[int, int, int]:
    """A problem of its own for each number."""
    return number % 97 + 1, number // 97 + 1, 512


class Results:
    """One file of results, and the object that was read from it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count, self._added = folder, 0, 0
        self._read: Any = None

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._count}.json"

    def make(self, count: int) -> float:
        """So many problems with one config each, as `store_results` writes them."""
        self._count = count
        data = [
            {
                "device_name": DEVICE,
                "problem_size": "x".join(map(str, size_of(number))),
                "tunable_parameters": CONFIG,
                "time": 1.0,
            }
            for number in range(count)
        ]
        meta = {"version_number": "1.0", "kernel_name": "kernel", "objective": "time"}
        whole = {**meta, "objective_higher_is_better": False}
        whole |= {"tunable_parameters": list(CONFIG), "data": data}
        self._path.write_text(json.dumps(whole, indent=""), encoding="utf-8")
        return 0.0

    def open(self) -> float:
        """Read the file and find one config."""
        return _seconds(self._open)

    def _open(self) -> None:
        self._read = TuneResults(str(self._path))
        self.look(1)

    def look(self, calls: int) -> float:
        """Find a config in what was read."""
        wanted, read = size_of(self._count // 2), self._read

        def look() -> None:
            for _ in range(calls):
                read.get_best_config(DEVICE, wanted)

        return _seconds(look) / calls

    def add(self) -> float:
        """Store the result of one more problem."""
        self._added += 1
        size, results = size_of(10**7 + self._added), [{**CONFIG, "time": 1.0}]
        return _seconds(
            lambda: store_results(
                str(self._path), "kernel", None, CONFIG, size, results, {"device_name": DEVICE}
            )
        )


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def main() -> None:
    """Serve until the input ends."""
    results = Results(Path(sys.argv[1]))
    print(json.dumps(version("kernel_tuner")), flush=True)
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        print(json.dumps(getattr(results, what)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
