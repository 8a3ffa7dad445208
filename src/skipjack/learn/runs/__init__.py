"""Training runs: folders, learners, workers and resuming. Torch is imported by a run only."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
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
    from skipjack.learn.runs.run import (
        IN_PROCESS,
        LOCAL,
        RAY,
        TrainingProgress,
        TrainingWorkers,
        begin_run,
        check_workers,
        free_folder,
        open_learner,
        resume,
        train,
    )
    from skipjack.learn.runs.tracking import check_wandb, fetch_policy, open_sinks

__all__ = [
    "IN_PROCESS",
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "folder": "PlayedEpisode RunFolder TrainingSession",
        "learners": "Learner check_installed",
        "options": "TrainOptions TrainerName absolute_rates continued trainer_named what_rates_are",
        "run": (
            "IN_PROCESS LOCAL RAY TrainingProgress TrainingWorkers begin_run check_workers "
            "free_folder open_learner resume train"
        ),
        "tracking": "check_wandb fetch_policy open_sinks",
    },
)
