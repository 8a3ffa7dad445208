"""What every part of the benchmark needs: a tuner with nothing known, and a stand beside it."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import machine
from metaschedule import CACHE
from skipjack.native import cpu
from skipjack.settings import load_settings
from skipjack.tuning import Tuner
from skipjack.tuning.study import timing_cores
from stand import Stand


@dataclass(frozen=True, slots=True)
class Sitting:
    """A tuner and a stand for one number of threads."""

    tuner: Tuner
    stand: Stand

    @property
    def threads(self) -> int:
        """As many for libraries as for our own kernels."""
        return len(self.stand.cores)


@contextlib.contextmanager
def sit(threads: int, core: int | None) -> Iterator[Sitting]:
    """Open both; the tuner's user directory is empty and goes away."""
    with tempfile.TemporaryDirectory(prefix="skipjack-bench-") as directory:
        settings = load_settings(user_dir=directory, core=core)
        cores = timing_cores(settings, threads)
        with Tuner(settings, cpu.detect(threads), print) as tuner:
            tuner.context.warm_up()
            tuner.context.peaks()  # otherwise the first problem would wait for them
            stand = Stand(tuner.context.device, cores)
            listed = ", ".join(map(str, cores))
            print(
                f"{stand.device.model}, {stand.device.name}, cores {listed}, "
                f"{threads} thread(s), float32, {stand.device.level}; libraries say "
                f"{', '.join(f'{name} {text}' for name, text in machine.libraries().items())}",
                flush=True,
            )
            yield Sitting(tuner, stand)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the parts that run on several numbers of threads have in common."""
    parser.add_argument("--quick", action="store_true", help="fewer problems, less tuning")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, each a process")
    parser.add_argument("--core", type=int, help="the first core to time on (default: the last)")
    parser.add_argument(
        "--device",
        type=machine.hold_to,
        help="keep to the instructions of this CPU, as haswell/1, libraries too",
    )
    parser.add_argument("--json", type=Path, help="where to write the result")


def thread_counts(text: str) -> list[int]:
    """As many of the numbers asked for as this machine has cores."""
    counts = [int(part) for part in text.split(",")]
    there = len(cpu.usable_cores())
    for count in counts:
        if count > there:
            print(f"{count} threads are left out: this process may use {there} cores")
    return [count for count in counts if count <= there]


def each_in_its_own_process(counts: Sequence[int], arguments: Sequence[str]) -> int:
    """Run this program again for each number of threads, so that library pools start clean."""
    codes = [
        subprocess.run(
            [sys.executable, sys.argv[0], *arguments, "--threads", str(count)]
        ).returncode
        for count in counts
    ]
    return max(codes, default=0)


def result_path(asked: Path | None, name: str, at: Sitting, *, whole: bool) -> Path:
    """Where a result goes; a part of the problems never replaces the result of all of them."""
    return asked or result_file(name, machine.label(at.stand.device), at.threads, whole=whole)


def result_file(name: str, label: str, threads: int, *, whole: bool) -> Path:
    """The place where nobody asked for another; `label` is of the device."""
    return (machine.RESULTS if whole else CACHE) / f"{name}_{label}_{threads}.json"
