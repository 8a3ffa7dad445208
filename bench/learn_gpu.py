"""A ledger to learn from on a GPU: planned configs of many problems, timed side by side.

::

    python bench/learn_gpu.py plan PLAN bench/lists/learn_gpu_*.txt bench/lists/gpu_matmul.txt
    python bench/learn_gpu.py table PLAN --user DIR --at-most 530 --copy FILE

``plan`` chooses the configs (`learn_plan`) and needs no GPU. ``table`` runs where the GPU is: while
it times, other cores build the kernels of the problems that follow. Each problem's configs and its
library are timed in one session, in cold caches, as ``skipjack tune`` does, and recorded as studies
of the searcher ``listed``. What is recorded already is passed over, so that a run that was ended
goes on. ``--copy`` keeps a compressed copy of the ledger, for a machine that gives back one folder.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from math import inf
from pathlib import Path

import numpy as np

from build_ahead import AheadBuilders, AheadContext
from learn_data import LISTED, record
from learn_plan import PlannedProblem, interleaved, plan, read_list, read_plan, write_plan
from nv_matmul import PICKS
from skipjack.core import Config, Device, Problem, Status, Study, Trial, protocol_for
from skipjack.devices import describe, device_for
from skipjack.errors import SkipjackError, UsageError
from skipjack.ledger import FILE_NAME, Ledger
from skipjack.settings import load_settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.tuning import ConfigTimer

LIBRARIES = {"matmul": "cublas", "conv2d": "cudnn"}
DEVICE = "sm_90/132"
CONFIGS = 88
FEWER = {
    "gpu_matmul/squares/bf16": 0.6,
    "gpu_matmul/layers/bf16": 0.6,
    "gpu_matmul/decoding/bf16": 0.6,
    "gpu_matmul/odd sizes/bf16": 0.6,
    "gpu_matmul/": 0.8,
    "learn_gpu_convs/": 0.9,
}
"""The shares of configs of some families: products in bf16 are as fast as in f16."""
_COPY_EVERY_S = 60.0
_FIRST, _REASONS = 2, 2
"""After so many problems without a time it ends; so many failures of each are printed."""
_SLOWEST = 1.5
"""A problem is not begun unless this multiple of the mean time of a problem is left."""


def make_plan(path: Path, lists: Sequence[Path], picks: Path, configs: int, limit: int) -> None:
    """Choose, write, and say what it will cost."""
    listed = [one for each in lists for one in read_list(each, ("f16", "bf16"))]
    listed = interleaved({one.problem: one for one in listed}.values(), np.random.default_rng(0))
    known = json.loads(picks.read_text())["products"] if picks.exists() else {}
    fewer = {name: max(1, int(configs * share)) for name, share in FEWER.items()}
    planned = list(plan(listed[:limit], describe(DEVICE), known, configs, fewer))
    write_plan(path, DEVICE, planned)
    count = sum(len(one.configs) for one in planned)
    builds = len({each.build for one in planned for each in one.configs})
    print(f"{len(planned)} problems, {count} configs, {builds} builds, {path.stat().st_size} bytes")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the command line asks for."""

    user: Path
    copy: Path | None
    ends: float
    limit: int


def table(planned: Sequence[PlannedProblem], device: Device, options: TableOptions) -> None:
    """Time and record the problems that are not in the ledger, in the order of the plan."""
    settings = load_settings()
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(options.user))
        ledger.add_device(device)
        copies = _Copies(options.user / FILE_NAME, options.copy)
        stack.callback(copies.write)
        done = {
            one.problem
            for one in ledger.studies()
            if one.searcher == LISTED and one.device == device.class_key
        }
        open_ones = [one for one in planned if one.problem.key not in done][: options.limit]
        print(f"{device.class_key}: {len(planned)} problems, {len(open_ones)} to time", flush=True)
        builders = stack.enter_context(AheadBuilders(settings.build_workers, device, open_ones))
        context = stack.enter_context(AheadContext(settings, device, builders))
        timer = stack.enter_context(ConfigTimer(context=context))
        began, timed, right = time.monotonic(), 0, 0
        for number, one in enumerate(open_ones):
            now = time.monotonic()
            usual = (now - began) / number if number else 0.0
            if now + _SLOWEST * usual > options.ends:
                print(f"time is up: {len(open_ones) - number} problems are left", flush=True)
                break
            trials = _time_problem(timer, ledger, device, one)
            timed, right = timed + len(trials), right + sum(trial.ok for trial in trials)
            if number == _FIRST and not right:
                raise UsageError(f"no config of the first {number + 1} problems could be timed")
            took = time.monotonic() - now
            print(
                f"{number + 1}/{len(open_ones)} {one.problem.key}: {took:.2f} s, "
                f"{builders.waited_s:.1f} s waited for builds so far, {builders.built} built, "
                f"{builders.left} left",
                flush=True,
            )
            copies.now_and_then()
        took = time.monotonic() - began
        print(
            f"{timed} trials in {took:.0f} s, {builders.waited_s:.0f} s of them waiting for "
            f"builds; {builders.built} builds of {builders.mean_s:.2f} s",
            flush=True,
        )


def _time_problem(
    timer: ConfigTimer, ledger: Ledger, device: Device, one: PlannedProblem
) -> list[Trial]:
    """Time a problem's configs and its library, and record all of it, or nothing."""
    found: list[tuple[BuildingSolver, list[Trial]]] = []
    try:
        for name, configs in groupby(one.configs, lambda each: each.solver):
            solver = find_solver(name)
            assert isinstance(solver, BuildingSolver)
            wanted = [each.config for each in configs]
            found.append((solver, timer.trials(one.problem, wanted, name)))
        library = _library_trial(timer, one.problem)
    except SkipjackError as error:
        print(f"{one.problem.key}: {error}", flush=True)
        return []
    for solver, trials in found:
        record(ledger, device, one.problem, solver, trials)
    if library:
        _record_library(ledger, device, one.problem, *library)
    all_ = [trial for _, trials in found for trial in trials]
    statuses = Counter(trial.status.value for trial in all_)
    said = "-" if library is None or not library[1].value else f"{library[1].value / 1e3:.2f} us"
    times = [trial.value for trial in all_ if trial.ok and trial.value]
    best = f"{min(times) / 1e3:.2f} us" if times else "-"
    print(f"  best {best}, library {said}, {dict(statuses)}", flush=True)
    for trial in [trial for trial in all_ if trial.status.failed][:_REASONS]:
        print(f"  {trial.status.value}: {trial.reason[:200]}", flush=True)
    return all_


def _library_trial(timer: ConfigTimer, problem: Problem) -> tuple[str, Trial] | None:
    """The time of the library, on the scale of the configs."""
    name = LIBRARIES.get(problem.operation)
    if name is None:
        return None
    took = timer.libraries(problem, [name])[name]
    if isinstance(took, str):
        return name, Trial(Config(), Status.ERROR, reason=took[:300])
    return name, Trial(Config(), Status.OK, took, metrics={"time_ns": took})


def _record_library(
    ledger: Ledger, device: Device, problem: Problem, name: str, trial: Trial
) -> None:
    version = find_solver(name).version
    study = Study(
        *(problem, name, device.class_key, LISTED, 0, str(version)),
        protocol=protocol_for(device),
    )
    ledger.start_study(study, version)
    ledger.log_tells(study.id, [trial])


class _Copies:
    """Compressed copies of a database that is open."""

    def __init__(self, path: Path, copy: Path | None) -> None:
        self._path, self._copy, self._last = path, copy, time.monotonic()

    def now_and_then(self) -> None:
        """Write one if the last is old."""
        if time.monotonic() - self._last > _COPY_EVERY_S:
            self.write()

    def write(self) -> None:
        """Replace the copy."""
        self._last = time.monotonic()
        if self._copy is None or not self._path.exists():
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / FILE_NAME
            with contextlib.closing(sqlite3.connect(self._path)) as source:
                source.execute("VACUUM INTO ?", [str(plain)])
            packed = gzip.compress(plain.read_bytes(), 6)
        new = self._copy.with_name(f"{self._copy.name}.new")
        new.write_bytes(packed)
        new.replace(self._copy)


@contextlib.contextmanager
def _user_directory(path: Path) -> Iterator[Path]:
    """The directory as that of this process and its workers; a packed ledger in it is unpacked."""
    path.mkdir(parents=True, exist_ok=True)
    packed = path / f"{FILE_NAME}.gz"
    if packed.exists() and not (path / FILE_NAME).exists():
        (path / FILE_NAME).write_bytes(gzip.decompress(packed.read_bytes()))
    os.environ["SKIPJACK_USER_DB_PATH"] = str(path.absolute())
    yield path


def main(argv: Sequence[str] | None = None) -> int:
    """One step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    choosing = steps.add_parser("plan", help="choose the configs; needs no GPU")
    choosing.add_argument("plan", type=Path)
    choosing.add_argument("lists", type=Path, nargs="+")
    choosing.add_argument("--picks", type=Path, default=PICKS, help="of nv_matmul.py")
    choosing.add_argument("--configs", type=int, default=CONFIGS, help="of each problem")
    choosing.add_argument("--limit", type=int, default=sys.maxsize, help="at most so many problems")
    timing = steps.add_parser("table", help="time them")
    timing.add_argument("plan", type=Path)
    timing.add_argument("--user", type=Path, required=True, help="the user directory to write to")
    timing.add_argument("--device", default="gpu")
    timing.add_argument("--at-most", type=float, default=inf, help="seconds, in all")
    timing.add_argument("--limit", type=int, default=sys.maxsize, help="at most so many problems")
    timing.add_argument("--copy", type=Path, help="keep a compressed copy of the ledger here")
    args = parser.parse_args(argv)
    if args.step == "plan":
        make_plan(args.plan, args.lists, args.picks, args.configs, args.limit)
        return 0
    ends = time.monotonic() + args.at_most
    try:
        with _user_directory(args.user) as user:
            options = TableOptions(user, args.copy, ends, args.limit)
            table(read_plan(args.plan), device_for((), args.device), options)
    except SkipjackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
