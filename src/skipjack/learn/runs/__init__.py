"""Training runs: folders, learners, workers, resuming. Torch is imported when a run begins."""

from skipjack.learn.runs.folder import PlayedEpisode, RunFolder, TrainingSession
from skipjack.learn.runs.learners import Learner, check_installed
from skipjack.learn.runs.options import (
    TrainerName,
    TrainOptions,
    absolute_rates,
    continued,
    trainer_named,
    what_rates_are,
)
from skipjack.learn.runs.running import (
    HERE,
    LOCAL,
    RAY,
    TrainingProgress,
    TrainingWorkers,
    resume,
    train,
)
from skipjack.learn.runs.starting import begin_run, check_workers, free_folder, open_learner
from skipjack.learn.runs.tracking import check_wandb, fetch_policy, open_sinks

__all__ = [
    "HERE",
    "LOCAL",
    "RAY",
    "Learner",
    "PlayedEpisode",
    "RunFolder",
    "TrainOptions",
    "TrainerName",
    "TrainingProgress",
    "TrainingSession",
    "TrainingWorkers",
    "absolute_rates",
    "begin_run",
    "check_installed",
    "check_wandb",
    "check_workers",
    "continued",
    "fetch_policy",
    "free_folder",
    "open_learner",
    "open_sinks",
    "resume",
    "train",
    "trainer_named",
    "what_rates_are",
]
