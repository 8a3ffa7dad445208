"""How a run begins: its folder, and the learner that the folder asks for."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from skipjack.core.device import Device
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopDataset, read_dataset, refusal
from skipjack.learn.policy import find_policy
from skipjack.learn.rates import EXACTLY, TableRates, close_rates, open_rates, rated_device
from skipjack.learn.runs.folder import START, RunFolder
from skipjack.learn.runs.learners import Learner, OwnLearner, RunCollector, check_installed
from skipjack.learn.runs.options import SLOW_RATES, TrainerName, TrainOptions
from skipjack.learn.runs.running import HERE, RAY, TrainingWorkers
from skipjack.learn.runs.setup import PlayerSetup
from skipjack.operations import parse


def begin_run(path: Path, options: TrainOptions, *, start: str = "") -> RunFolder:
    """The folder of a new run. Whatever is wrong with the options is said before it is made.

    `start` is where the policy lies that the options name as theirs.
    """
    check_installed(options.trainer)
    dataset = read_dataset(options.dataset)
    if not dataset.train:
        raise UsageError(
            f"dataset {options.dataset} has no problems to train on; give it more problems, or "
            "make it with a larger --train-share"
        )
    if options.eval_size and not dataset.test:
        raise UsageError(
            f"dataset {options.dataset} has no problems to be judged on; give --eval-size 0, or "
            "make it with a smaller --train-share"
        )
    device = rated_device(options.rates, None, options.threads)
    kinds = {key.partition(":")[0]: key for key in dataset.train}
    for key in kinds.values():
        if reason := refusal(parse(key), device):
            raise UsageError(f"problem {key} is not a game of loops: {reason}")
    _check_rates(options, dataset, device)
    first = find_policy(start or options.start, options.preset) if options.start else None
    folder = RunFolder.create(path, options, dataset, device)
    if first is not None:
        shutil.copyfile(first.name, path / START)
    return folder


def free_folder(options: TrainOptions) -> Path:
    """A name in ``runs`` that is not taken."""
    stem = f"{Path(options.dataset).stem}-{options.trainer}-{options.seed}"
    names = (Path("runs") / (stem if not at else f"{stem}-{at + 1}") for at in range(10_000))
    return next(path for path in names if not path.exists())


def check_workers(options: TrainOptions, workers: TrainingWorkers) -> None:
    """`UsageError` if these workers cannot play what the options ask for."""
    if options.trainer is TrainerName.SB3 and workers.engine == RAY:
        raise UsageError("sb3 trains on one machine; use --workers, or --trainer ppo or dqn")
    if options.rates.startswith(SLOW_RATES) and workers.engine != HERE:
        raise UsageError(
            f"--rates {options.rates} is measured by one process at a time, on this machine; "
            "measure a table first (skipjack loops measure), or train with --workers 1"
        )


def open_learner(
    folder: RunFolder,
    workers: TrainingWorkers = TrainingWorkers(),  # noqa: B008 (frozen)
) -> Learner:
    """The learner of a run, whose episodes these workers play."""
    check_installed(folder.options.trainer)
    check_workers(folder.options, workers)
    if folder.options.trainer is TrainerName.SB3:
        from skipjack.learn.runs.sb3 import Sb3Learner

        return Sb3Learner(folder, workers.count or 1)
    return OwnLearner(folder, here if workers.engine == HERE else partial(_on_engine, workers))


def _on_engine(workers: TrainingWorkers, setup: PlayerSetup, seed: int) -> RunCollector:
    from skipjack.learn.runs.engine_collector import engine_collector

    return engine_collector(
        setup, seed, workers=workers.count, ray=workers.engine == RAY, address=workers.address
    )


def here(setup: PlayerSetup, seed: int) -> RunCollector:
    """A collector that plays in this process."""
    from skipjack.learn.training.collecting import HereCollector

    return HereCollector(setup.player(), seed)


def _check_rates(options: TrainOptions, dataset: LoopDataset, device: Device) -> None:
    """`UsageError` if there are no such rates, or they know nothing of some problems."""
    rates = open_rates(options.rates, device)
    close_rates(rates)
    if isinstance(rates, TableRates) and options.rates.startswith(EXACTLY):
        lacking = sum(not rates.table.of(problem) for problem in dataset.problems("train"))
        if lacking:
            raise UsageError(
                f"{options.rates} has no times of {lacking} of the {len(dataset.train)} problems "
                f"to train on; leave {EXACTLY} out to have them estimated"
            )
