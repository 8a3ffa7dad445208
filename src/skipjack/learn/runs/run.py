"""A training run: how it begins, and from its last checkpoint to its last step."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopDataset, read_dataset, refusal
from skipjack.learn.policy import find_policy
from skipjack.learn.rates import EXACTLY, TableRates, close_rates, open_rates, rated_device
from skipjack.learn.runs.folder import START, RunFolder, TrainingSession, versions
from skipjack.learn.runs.learners import (
    Learner,
    OwnLearner,
    PlayerSetup,
    RunCollector,
    check_installed,
    unusable_checkpoint,
)
from skipjack.learn.runs.options import SLOW_RATES, TrainerName, TrainOptions
from skipjack.operations import parse
from skipjack.storage import timestamp, utc_now

# Training from the last checkpoint to the last step.

SAVE_EVERY = 20
"""The most iterations between two checkpoints."""
SAVE_EVERY_S = 60.0
"""The most seconds between two checkpoints."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a run after an iteration."""

    iteration: int
    steps: int
    total_steps: int
    seconds: float
    """Time of training in all sessions."""
    steps_per_s: float
    """Actions per second in this session."""
    curves: Mapping[str, float]


class CurveSink(Protocol):
    """Receives the curves of a run."""

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """Add the curves after `step` actions."""
        ...

    def close(self, run: Path) -> None:
        """Finish, because the run is done or interrupted."""
        ...


ProgressObserver = Callable[[TrainingProgress], None]


IN_PROCESS, LOCAL, RAY = "here", "local", "ray"
"""Engines: in this process, in other processes of this machine, or on a Ray cluster."""


@dataclass(frozen=True, slots=True)
class TrainingWorkers:
    """The processes that play episodes."""

    engine: str = IN_PROCESS
    count: int | None = 1
    """The number of workers, on a Ray cluster for each node; None: one for each CPU."""
    address: str | None = None
    """The address of a Ray cluster; None to start one on this machine."""


def resume(folder: RunFolder, learner: Learner) -> None:
    """Restore the folder's last checkpoint in a learner, if there is one."""
    last = folder.last_checkpoint()
    if last is not None:
        if last[1].suffix != learner.suffix:
            other = f"its trainer is not {folder.options.trainer}, which run.json names"
            raise unusable_checkpoint(last[1], other)
        learner.restore(last[1])
    folder.cut(learner.iteration)


def train(
    folder: RunFolder,
    learner: Learner,
    workers: TrainingWorkers = TrainingWorkers(),  # noqa: B008 (frozen)
    *,
    watch: ProgressObserver = lambda progress: None,
    sinks: Sequence[CurveSink] = (),
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Train until all steps are played or `stop` returns true; returns whether all were played.

    Afterwards the folder has a checkpoint of the last iteration, or of an earlier one after an
    exception.
    """
    total, session = folder.options.total_steps, _begin(folder, learner, workers, clock)
    saved, saved_s = learner.iteration, session.began_s
    ended = "failed"
    try:
        while learner.steps < total and not stop():
            curves, episodes = learner.iterate()
            progress = session.progress(learner, total, curves)
            folder.add(progress.curves, episodes, learner.iteration)
            for sink in sinks:
                sink.add(learner.steps, progress.curves)
            watch(progress)
            if learner.iteration - saved >= SAVE_EVERY or clock() - saved_s > SAVE_EVERY_S:
                _save(folder, learner)
                saved, saved_s = learner.iteration, clock()
        # Not after an exception, which may have left an iteration incomplete.
        if learner.iteration:
            _save(folder, learner)
        ended = "done" if learner.steps >= total else "interrupted"
    finally:
        folder.change_session(
            to_step=learner.steps,
            seconds=round(clock() - session.began_s, 3),
            ended=ended,
            schedules=learner.sources(),
        )
    return ended == "done"


@dataclass(frozen=True, slots=True)
class _SessionStart:
    """The start of a session."""

    first_step: int
    began_s: float
    before_s: float
    """Time of training in earlier sessions."""
    clock: Callable[[], float]

    def progress(
        self, learner: Learner, total: int, curves: Mapping[str, float]
    ) -> TrainingProgress:
        spent_s = self.clock() - self.began_s
        seconds = self.before_s + spent_s
        pace = (learner.steps - self.first_step) / max(spent_s, 1e-9)
        place = {"iteration": learner.iteration, "steps": learner.steps}
        line = {**place, "seconds": round(seconds, 3), **curves}
        return TrainingProgress(learner.iteration, learner.steps, total, seconds, pace, line)


def _begin(
    folder: RunFolder, learner: Learner, workers: TrainingWorkers, clock: Callable[[], float]
) -> _SessionStart:
    steps = learner.steps
    since = _SessionStart(steps, clock(), _seconds_before(folder), clock)
    now = timestamp(utc_now())
    folder.sessions.append(
        TrainingSession(now, workers.engine, workers.count, versions(), steps, steps)
    )
    folder.write_record()
    if steps < folder.options.total_steps:
        folder.forget_evaluation()
    return since


def _save(folder: RunFolder, learner: Learner) -> None:
    learner.save(folder.checkpoint(learner.iteration, learner.suffix))
    folder.keep(learner.arrays())


def _seconds_before(folder: RunFolder) -> float:
    """Time of training in earlier sessions, up to their last kept iterations."""
    rows = folder.curves()
    return float(rows[-1]["seconds"]) if rows else 0.0


# Beginning a run: its folder and its learner.


def begin_run(path: Path, options: TrainOptions, *, start: str = "") -> RunFolder:
    """Create the folder of a new run, after checking the options.

    `start` is the path of the initial policy that the options name.
    """
    check_installed(options.trainer)
    dataset = read_dataset(options.dataset)
    if not dataset.train:
        raise UsageError(
            f"dataset {options.dataset} has no problems for training; add problems, or make it "
            "with a larger --train-share"
        )
    if options.eval_size and not dataset.test:
        raise UsageError(
            f"dataset {options.dataset} has no problems for the evaluation; give --eval-size 0, or "
            "make it with a smaller --train-share"
        )
    device = rated_device(options.rates, None, options.threads)
    kinds = {key.partition(":")[0]: key for key in dataset.train}
    for key in kinds.values():
        if reason := refusal(parse(key), device):
            raise UsageError(f"problem {key} cannot be played: {reason}")
    _check_rates(options, dataset, device)
    first = find_policy(start or options.start, options.preset) if options.start else None
    folder = RunFolder.create(path, options, dataset, device)
    if first is not None:
        shutil.copyfile(first.name, path / START)
    return folder


def free_folder(options: TrainOptions) -> Path:
    """An unused path in the folder ``runs``."""
    stem = f"{Path(options.dataset).stem}-{options.trainer}-{options.seed}"
    names = (Path("runs") / (stem if not at else f"{stem}-{at + 1}") for at in range(10_000))
    return next(path for path in names if not path.exists())


def check_workers(options: TrainOptions, workers: TrainingWorkers) -> None:
    """Raise `UsageError` if these workers cannot be used with the options."""
    if options.trainer is TrainerName.SB3 and workers.engine == RAY:
        raise UsageError("sb3 trains on one machine; use --workers, or --trainer ppo or dqn")
    if options.rates.startswith(SLOW_RATES) and workers.engine != IN_PROCESS:
        raise UsageError(
            f"--rates {options.rates} can be measured only by one process on this machine; "
            "measure a table first (skipjack loops measure), or train with --workers 1"
        )


def open_learner(
    folder: RunFolder,
    workers: TrainingWorkers = TrainingWorkers(),  # noqa: B008 (frozen)
) -> Learner:
    """The learner of a run, with episodes played by these workers."""
    check_installed(folder.options.trainer)
    check_workers(folder.options, workers)
    if folder.options.trainer is TrainerName.SB3:
        from skipjack.learn.runs.sb3 import Sb3Learner

        return Sb3Learner(folder, workers.count or 1)
    return OwnLearner(
        folder,
        in_process_collector if workers.engine == IN_PROCESS else partial(_on_engine, workers),
    )


def _on_engine(workers: TrainingWorkers, setup: PlayerSetup, seed: int) -> RunCollector:
    from skipjack.learn.runs.engine_collector import engine_collector

    return engine_collector(
        setup, seed, workers=workers.count, ray=workers.engine == RAY, address=workers.address
    )


def in_process_collector(setup: PlayerSetup, seed: int) -> RunCollector:
    """A collector that plays in this process."""
    from skipjack.learn.training import InProcessCollector

    return InProcessCollector(setup.player(), seed)


def _check_rates(options: TrainOptions, dataset: LoopDataset, device: Device) -> None:
    """Raise `UsageError` if the rates do not exist or lack problems."""
    rates = open_rates(options.rates, device)
    close_rates(rates)
    if isinstance(rates, TableRates) and options.rates.startswith(EXACTLY):
        lacking = sum(not rates.table.of(problem) for problem in dataset.problems("train"))
        if lacking:
            raise UsageError(
                f"{options.rates} lacks times of {lacking} of the {len(dataset.train)} problems "
                f"for training; leave out {EXACTLY} to estimate them"
            )
