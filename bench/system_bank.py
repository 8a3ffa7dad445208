"""Measure what the system bank is made of: problems of a list, tuned one after the other.

::

    python bench/system_bank.py cpu --user bench/.cache/system-v4 --seconds 3
    SKIPJACK_CPU_LEVEL=x86-64-v3 python bench/system_bank.py cpu --user bench/.cache/system-v3
    python bench/system_bank.py gpu --user bench/.cache/system-gpu --at-most 450
    skipjack bank ship bench/.cache/system-* -o src/skipjack/system

``make system-bank`` does this for the CPU. What the user directory already knows is passed over,
so that a run that was ended goes on. ``--at-most`` ends a run: each problem gets its share of the
seconds that are left, and never more than ``--seconds``. ``--pack`` writes the bank with its
kernels as one file, for a machine that gives back little; unpacked it is a user directory again.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from skipjack import lists
from skipjack.bank import FILE_NAME, Bank
from skipjack.core import Problem
from skipjack.errors import SkipjackError, StorageError
from skipjack.runtime import select_device
from skipjack.runtime.local_kernels import requested_problem
from skipjack.settings import ARTIFACTS, Settings, load_settings
from skipjack.storage import KernelStore
from skipjack.tuning import Tuner, make_budget
from skipjack.tuning.study import TuneOptions

LISTS = {"cpu": ("cpu",), "gpu": ("llm", "resnet50")}
LEAST_S = 0.5
"""A share of the time that is smaller than this finds nothing."""


def problems_of(device: str) -> list[Problem]:
    """What is tuned for a kind of devices, each once; on GPUs layers in both layouts."""
    found = [one for name in LISTS[device] for one in _listed(name, device)]
    return list(dict.fromkeys(found))


def _listed(name: str, device: str) -> Iterator[Problem]:
    for line in lists.path_of(name).read_text().splitlines():
        key = line.partition("#")[0].strip()
        if not key:
            continue
        if device == "gpu" and key.startswith("conv2d:"):
            for layout in ("NHWC", "NCHW"):
                yield requested_problem(key, layout=layout)
        else:
            yield requested_problem(key)


def measure(device: str, settings: Settings, seconds: float, at_most: float, limit: int) -> None:
    """Tune what the user directory does not know yet, as far as the time goes."""
    end = time.monotonic() + at_most
    asked = problems_of(device)
    here = select_device(asked, device, None)
    bank = Bank.open(settings.user_dir)
    open_ones = [one for one in asked if bank.lookup(one.key, here.class_key) is None]
    print(f"{here.class_key}: {len(asked)} problems, {len(open_ones)} to tune", flush=True)
    open_ones = open_ones[:limit]
    if not open_ones:
        return
    with Tuner(settings, here, lambda sentence: print(sentence, flush=True)) as tuner:
        for number, problem in enumerate(open_ones):
            share = (end - time.monotonic()) / (len(open_ones) - number)
            if share < LEAST_S:
                print(f"time is up: {len(open_ones) - number} problems are left", flush=True)
                return
            budget = make_budget(None, min(seconds, share))
            try:
                result = tuner.tune(problem, TuneOptions(budget=budget))
            except SkipjackError as error:
                print(f"{problem.key}: {error}", flush=True)
                continue
            print(
                f"{problem.key}: {result.status}, {result.solver}, {len(result.trials)} trials, "
                f"{result.seconds:.1f} s",
                flush=True,
            )


def pack(settings: Settings, path: Path) -> None:
    """A bank and the kernels that its entries name, as one file that is a user directory."""
    bank, store = Bank.open(settings.user_dir), KernelStore(settings)
    entries = list(bank.all_entries())
    with tarfile.open(path, "w:gz") as archive:
        _add(archive, FILE_NAME, "".join(f"{one.line}\n" for one in entries).encode())
        for digest in sorted({one.launch.artifact for one in entries if one.launch}):
            try:
                data = store.get(digest)
            except StorageError as error:
                print(error, flush=True)
                continue
            _add(archive, f"{ARTIFACTS}/{digest[:2]}/{digest}", data)
    print(f"{path.name}: {len(entries)} entries, {path.stat().st_size} bytes", flush=True)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("device", choices=list(LISTS))
    parser.add_argument("--user", type=Path, required=True, help="the user directory")
    parser.add_argument("--seconds", type=float, default=3.0, help="at most, for each problem")
    parser.add_argument("--at-most", type=float, default=math.inf, help="seconds, in all")
    parser.add_argument("--limit", type=int, default=sys.maxsize, help="at most so many problems")
    parser.add_argument("--pack", type=Path, help="write the bank and its kernels here, too")
    options = parser.parse_args()
    os.environ["SKIPJACK_USER_DB_PATH"] = str(options.user.absolute())  # of workers, too
    settings = load_settings()
    try:
        measure(options.device, settings, options.seconds, options.at_most, options.limit)
    finally:
        if options.pack:
            pack(settings, options.pack)


if __name__ == "__main__":
    main()
