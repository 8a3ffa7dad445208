"""The begin of a run: its folder, and the learner that a folder asks for."""

from __future__ import annotations

import shutil
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.learn.loops import read_dataset, refusal
from skipjack.learn.policy import find_policy
from skipjack.learn.rates import open_rates, rated_device
from skipjack.learn.runs.folder import START, RunFolder
from skipjack.learn.runs.learners import Learner, OwnLearner, RunCollector, check_installed
from skipjack.learn.runs.options import TrainOptions
from skipjack.learn.runs.setup import PlayerSetup
from skipjack.operations import parse


def begin_run(path: Path, options: TrainOptions, start: str = "") -> RunFolder:
    """The folder of a new run. Whatever is wrong with the options is said before it is made.

    `start` is where the policy lies that the options name as theirs.
    """
    check_installed(options.trainer)
    dataset = read_dataset(options.dataset)
    if not dataset.train:
        raise UsageError(f"dataset {options.dataset} has no problems to train on")
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
    _close(open_rates(options.rates, device))
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


def open_learner(folder: RunFolder) -> Learner:
    """Who learns in a run, in this process."""
    check_installed(folder.options.trainer)
    return OwnLearner(folder, here)


def here(setup: PlayerSetup, seed: int) -> RunCollector:
    """A collector that plays in this process."""
    from skipjack.learn.training.collecting import HereCollector

    return HereCollector(setup.player(), seed)


def _close(rates: object) -> None:
    close = getattr(rates, "close", None)
    if close is not None:
        close()
