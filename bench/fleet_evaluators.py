"""Do two evaluators finish the same real jobs in about half the time of one?

Small matrix products are built once; then copies of that store are evaluated by one and by two
evaluators of this machine in turns, each with cores of its own. Timed from the first claim to the
last verdict, once every worker has done a job of another label. Writes
``bench/results/fleet_evaluators_<arch>.json``. Part of ``make bench-fleet``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from fleet_flow import told_in
from fleet_record import Record, in_words, spread, write
from skipjack.errors import SkipjackError
from skipjack.fleet.engines import LocalEngine
from skipjack.fleet.model import JobPlan, JobStage, Label
from skipjack.fleet.run import Coordinator, RunRequest
from skipjack.fleet.store import NewProblem, open_store
from skipjack.interrupt import Interrupt
from skipjack.native import cpu
from skipjack.settings import Settings

GOAL = 0.55
_JOBS, _TRIALS = 24, 32
_LABEL, _WARM_UP, _WARMING = "evaluators", "warm_up", 4


def problems(count: int) -> list[str]:
    """Products that take about as long as each other."""
    return [f"matmul:{128 + 8 * at}x{192 - 4 * at}x128:f32" for at in range(count)]


def build(home: Path, jobs: int) -> None:
    """A store in which all jobs are built."""
    keys = problems(jobs)
    name = cpu.detect(1).name
    plans = [JobPlan(key, name, "microkernel", "random", 0, _TRIALS, _TRIALS) for key in keys]
    settings = Settings(home)
    with open_store(_url(home), settings=settings) as store:
        store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], _LABEL)
        store.jobs.add(Label(_LABEL, "bench"), plans)
        store.jobs.add(Label(_WARM_UP, "bench"), plans[:_WARMING])
    _run(home, (JobStage.BUILD,), len(cpu.usable_cores()), 0)


def evaluate_s(home: Path, built: Path, evaluators: int, jobs: int) -> float:
    """Seconds that so many evaluators take for a copy of what was built."""
    shutil.copytree(built, home)
    _run(home, (JobStage.EVALUATE,), 0, evaluators)
    told = told_in(_url(home), _LABEL, Settings(home))
    if told.jobs != jobs:
        raise SkipjackError(f"{told.jobs} of {jobs} jobs were evaluated")
    return told.seconds


def _run(home: Path, stages: tuple[JobStage, ...], builders: int, evaluators: int) -> None:
    settings = Settings(home)
    engine = LocalEngine(settings, builders, evaluators)
    with open_store(_url(home), settings=settings) as store, engine:
        for label in (_WARM_UP, _LABEL):
            Coordinator(store.queue, engine, RunRequest(label, stages)).run(Interrupt())


def _url(home: Path) -> str:
    return f"sqlite:///{home / 'fleet.sqlite'}"


def measure(home: Path, jobs: int, repeats: int) -> Record:
    """One and two evaluators in turns."""
    build(home / "built", jobs)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(repeats):
        for evaluators, found in seconds.items():
            place = home / f"{number}-{evaluators}"
            found.append(evaluate_s(place, home / "built", evaluators, jobs))
            print(f"{evaluators} evaluators: {found[-1]:.2f} s for {jobs} jobs", flush=True)
            shutil.rmtree(place)
    ratios = [two / one for one, two in zip(seconds[1], seconds[2], strict=True)]
    return {
        "goal": GOAL,
        "jobs": jobs,
        "trials": _TRIALS,
        "seconds": {str(evaluators): spread(found) for evaluators, found in seconds.items()},
        "two / one": spread(ratios),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=_JOBS)
    parser.add_argument("--quick", action="store_true", help="an impression, nothing is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evaluators-") as directory:
        os.environ["SKIPJACK_LOCK_DIR"] = directory
        repeats = 1 if options.quick else options.repeats
        found = measure(Path(directory), options.jobs, repeats)
    print(f"two evaluators / one: {in_words(found['two / one'])}, goal: at most {GOAL}")
    if not options.quick:
        write("fleet_evaluators", found)


if __name__ == "__main__":
    main()
