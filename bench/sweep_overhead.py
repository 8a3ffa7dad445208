"""What a sweep costs around an empty command: time per trial beside a bare process, in turns.

Prints milliseconds per trial with their spread, and writes
``bench/results/sweep_overhead_<arch>.json``. Part of ``make bench-sweep``.
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
from skipjack.sweep.running import run_commands
from skipjack.sweep.setting_up import set_up

_EMPTY = "/bin/true"
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


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    """Measure both in turns, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an impression")
    args = parser.parse_args(arguments)
    rounds = 2 if args.quick else _ROUNDS
    sweeps, bares = [], []
    with tempfile.TemporaryDirectory() as directory:
        sweep_ms(Path(directory), rounds, _TRIALS)  # loads modules and makes the ledger
        for number in range(rounds):
            sweeps.append(sweep_ms(Path(directory), number, _TRIALS))
            bares.append(bare_ms(_TRIALS))
    over = [sweep - bare for sweep, bare in zip(sweeps, bares, strict=True)]
    for name, values in (("sweep", sweeps), ("bare process", bares), ("difference", over)):
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{name:13} {statistics.median(values):.2f} ms per trial ({spread})")
    if not args.quick:
        device = cpu.detect()
        result = machine.header("sweep_overhead", device, cpu.usable_cores()) | {
            "trials": _TRIALS,
            "sweep_ms": sweeps,
            "bare_ms": bares,
            "median_sweep_ms": statistics.median(sweeps),
            "median_difference_ms": statistics.median(over),
        }
        machine.write_result(machine.RESULTS / f"sweep_overhead_{device.arch}.json", result)


if __name__ == "__main__":
    main()
