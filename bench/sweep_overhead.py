"""What a sweep costs around an empty command: time per trial beside a bare process, in turns.

A trial has a directory with three files, and what these cost is the disk's affair: it is measured
beside, on the disk of temporary files and in memory. Prints milliseconds per trial with spread,
and writes ``bench/results/sweep_overhead_<arch>.json``. Part of ``make bench-sweep``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import machine
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.sweep.session import run_commands, set_up

_EMPTY = "/bin/true"
_MEMORY = Path("/dev/shm")
_TRIALS, _ROUNDS = 100, 10


def sweep_ms(home: Path, number: int, trials: int) -> float:
    """Milliseconds per trial of a sweep of an empty command, each trial in the ledger."""
    file = home / f"round{number}.json"
    file.write_text(f'{{"a": {list(range(number * trials, (number + 1) * trials))}}}')
    setup = set_up(file, {"run_cmd": _EMPTY, "result": "exit", "confirm": 0, "baseline": False})
    result = run_commands(setup, Settings(home / "user"), lambda progress: None, lambda: False)
    assert len(result.trials) == trials and all(not trial.cached for trial in result.trials)
    return 1e3 * result.seconds / trials


def bare_ms(trials: int) -> float:
    """Milliseconds to start the command and wait for it, with its output captured."""
    started = time.perf_counter()
    for _ in range(trials):
        subprocess.run([_EMPTY], capture_output=True, check=True)
    return 1e3 * (time.perf_counter() - started) / trials


def files_ms(home: Path, number: int, trials: int) -> float:
    """Milliseconds to make a directory with three small files, as each trial has."""
    root = home / f"files{number}"
    root.mkdir()
    started = time.perf_counter()
    for trial in range(trials):
        (root / str(trial)).mkdir()
        for name in ("config.json", "point.json", "output.log"):
            (root / str(trial) / name).write_text("{}")
    return 1e3 * (time.perf_counter() - started) / trials


def measure(parent: Path, rounds: int) -> dict[str, list[float]]:
    """All three in turns, with everything that is written below `parent`."""
    found: dict[str, list[float]] = {"sweep": [], "bare process": [], "its files": []}
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        home = Path(directory)
        sweep_ms(home, rounds, _TRIALS)  # loads modules and makes the ledger
        for number in range(rounds):
            found["sweep"].append(sweep_ms(home, number, _TRIALS))
            found["bare process"].append(bare_ms(_TRIALS))
            found["its files"].append(files_ms(home, number, _TRIALS))
    return found


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    """Measure both in turns, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an impression")
    args = parser.parse_args(arguments)
    rounds = 2 if args.quick else _ROUNDS
    places = {"disk": Path(tempfile.gettempdir()), "memory": _MEMORY}
    cases = []
    for place, parent in places.items():
        if not parent.is_dir():
            continue
        found = measure(parent, rounds)
        print(f"files of trials on: {place}")
        for name, values in found.items():
            spread = f"{min(values):.2f} to {max(values):.2f}"
            print(f"  {name:13} {statistics.median(values):.2f} ms per trial ({spread})")
        medians = {name: statistics.median(values) for name, values in found.items()}
        cases.append({"place": place, "median_ms": medians, "ms": found})
    if not args.quick:
        device = cpu.detect()
        result = machine.header("sweep_overhead", device, cpu.usable_cores())
        path = machine.RESULTS / f"sweep_overhead_{device.arch}.json"
        machine.write_result(path, result | {"trials": _TRIALS, "cases": cases})


if __name__ == "__main__":
    main()
