"""PyTorch's basic training script, unchanged, as a whole program: plain, and with tuned kernels.

After one run under ``skipjack exec --policy incremental`` from an empty user directory, the program
runs by turns without Skipjack and under ``skipjack exec``: wall time of the whole program, start-up
included, for two epochs and for several. Writes ``bench/results/torch_mnist_<arch>.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import machine
from skipjack.native import cpu
from torch_rounds import Record, Rounds

NAME = "torch_mnist"
PLAIN, TUNED = "plain", "exec"
_SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "pytorch" / "mnist.py"
_SKIPJACK = Path(sys.executable).with_name("skipjack")


class Programs:
    """The script in both forms, with a user directory of its own."""

    def __init__(self, directory: str, threads: int, seconds: float) -> None:
        self._directory, self._seconds = directory, seconds
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        own = {"SKIPJACK_USER_DB_PATH": directory, "SKIPJACK_SYSTEM_DB_PATH": directory}
        self._environment = kept | own | {"OMP_NUM_THREADS": str(threads)}

    def tune(self, epochs: int) -> None:
        """One run that searches."""
        wishes = ("--policy", "incremental", "--seconds", str(self._seconds))
        self._run((str(_SKIPJACK), "exec", *wishes, "--"), epochs)

    def seconds(self, state: str, epochs: int) -> float:
        """Wall time of a run."""
        started = time.monotonic()
        self._run((str(_SKIPJACK), "exec", "--") if state == TUNED else (), epochs)
        return time.monotonic() - started

    def _run(self, under: Sequence[str], epochs: int) -> None:
        command = [*under, sys.executable, str(_SCRIPT), "--epochs", str(epochs)]
        subprocess.run(
            command,
            env=self._environment,
            cwd=self._directory,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def measure(programs: Programs, epochs: int, pairs: int) -> Record:
    """Pairs of runs, every second one the other way round."""
    found: dict[str, list[float]] = {PLAIN: [], TUNED: []}
    for at in range(pairs):
        for state in (PLAIN, TUNED)[:: -1 if at % 2 else 1]:
            found[state].append(programs.seconds(state, epochs))
    rounds = Rounds(found)
    return {
        "epochs": epochs,
        "seconds": {state: round(rounds.median_s(state), 3) for state in found},
        "speedup": rounds.ratio(PLAIN, TUNED).to_json(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", default="2,8", help="numbers of epochs, with commas")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of tuning, for each problem")
    parser.add_argument("--quick", action="store_true", help="two pairs of two epochs")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    wanted = [2] if args.quick else [int(part) for part in args.epochs.split(",")]
    records = []
    with tempfile.TemporaryDirectory(prefix="skipjack-mnist-") as directory:
        programs = Programs(directory, args.threads, args.seconds)
        programs.tune(2)
        for epochs in wanted:
            records.append(measure(programs, epochs, 2 if args.quick else args.pairs))
            ratio = records[-1]["speedup"]
            print(
                f"{epochs} epochs: {records[-1]['seconds']} s, {ratio['ratio']:.3f} "
                f"[{ratio['low']:.3f}, {ratio['high']:.3f}] times as fast under exec",
                flush=True,
            )
    device = cpu.detect(args.threads)
    result = machine.header(NAME, device, range(args.threads)) | {"cases": records}
    path = machine.RESULTS / f"{NAME}_{device.arch}.json"
    machine.write_result(args.json or path, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
