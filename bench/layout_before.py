"""Start-up, lookups and a short tuning: this code and an earlier checkout in turns, as ratios.

``bench/layout_before.py CHECKOUT``, as ``git worktree add CHECKOUT COMMIT`` makes it. Each run is a
process of its own with the same interpreter, whose PYTHONPATH is its checkout's ``src``; both sides
read a bank that the earlier one tuned. The side that goes first changes from round to round. A
ratio is the time of the earlier code divided by the time of this code: more than 1 is faster now.
Writes ``bench/results/layout_before_<arch>.json``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fleet_record import in_words, spread, write

_HERE = Path(__file__).resolve().parent
_COMMAND = ("-m", "skipjack")
_HITS = """
import time, skipjack
skipjack.lookup("matmul:64x64x64")
started = time.perf_counter()
for _ in range(50_000):
    skipjack.lookup("matmul:64x64x64")
print(time.perf_counter() - started)
"""
_TUNE = (*_COMMAND, "tune", "matmul:64x64x64", "--seconds", "1")
RUNS: dict[str, tuple[str, ...]] = {
    "skipjack --help": (*_COMMAND, "--help"),
    "import skipjack": ("-c", "import skipjack"),
    "first lookup of a program": ("-c", "import skipjack; skipjack.lookup('matmul:64x64x64')"),
    "50,000 further lookups": ("-c", _HITS),
    "skipjack bank list": (*_COMMAND, "bank", "list"),
    "tuning with 30 trials": (
        *(*_COMMAND, "tune", "matmul:96x96x96", "--budget", "30", "--seed", "1", "--retune"),
    ),
}
_PRINTS_SECONDS = ("50,000 further lookups",)


def seconds(name: str, checkout: Path, user: Path) -> float:
    """Of one run."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"),
        "SKIPJACK_USER_DB_PATH": str(user),
        "SKIPJACK_SYSTEM_DB_PATH": str(user),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or the side that was run before is ahead
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *RUNS.get(name, _TUNE)],
        cwd=user,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{name} in {checkout}: {done.stderr.strip()}")
    return float(done.stdout) if name in _PRINTS_SECONDS else wall


def measure(before: Path, home: Path, rounds: int) -> dict[str, list[float]]:
    """How many times as fast this code is, by kind of run and round."""
    sides = {"before": before, "now": _HERE.parent}
    users = {side: home / side for side in sides}
    users["before"].mkdir()
    seconds("", before, users["before"])
    shutil.copytree(users["before"], users["now"])
    ratios: dict[str, list[float]] = {name: [] for name in RUNS}
    for side, checkout in sides.items():  # bytecode and caches of the file system
        for name in RUNS:
            seconds(name, checkout, users[side])
    for number in range(rounds):
        order = ("before", "now") if number % 2 else ("now", "before")
        for name in RUNS:
            took = {side: seconds(name, sides[side], users[side]) for side in order}
            ratios[name].append(took["before"] / took["now"])
        print(f"round {number + 1} of {rounds}", flush=True)
    return ratios


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a work tree of the earlier commit")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ratios = measure(options.checkout.resolve(), Path(name), options.rounds)
    commit = subprocess.run(
        ["git", "-C", str(options.checkout), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    faster = {name: spread(found) for name, found in ratios.items()}
    for name, found in faster.items():
        print(f"{name}: {in_words(found)}")
    write("layout_before", {"before": commit, "faster_now": faster})


if __name__ == "__main__":
    main()
