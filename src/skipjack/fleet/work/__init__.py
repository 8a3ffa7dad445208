"""The work itself, wherever it is done: a round is built, or evaluated where the device is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.settings import load_settings
from skipjack.storage import user_directory


class Worker(Protocol):
    """Does one task after another, and keeps warm what they share."""

    def perform(self, task: Task) -> Outcome:
        """Do a round. What goes wrong is in the outcome, never an exception."""

    def close(self) -> None:
        """End what was started."""


def make_worker(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> Worker:
    """A worker for this machine. An evaluator times on these cores, or on those of the settings,
    and what is for a GPU on this one (``cuda:0``, or its number), or on the first that fits.
    """
    from skipjack import plugins
    from skipjack.fleet.work.building import BuildingWorker
    from skipjack.fleet.work.measuring import MeasuringWorker

    settings = load_settings()
    user_directory(settings)  # peaks are kept there, and a new machine has none
    plugins.load(settings.plugins)
    return (
        BuildingWorker(settings) if stage is Stage.BUILD else MeasuringWorker(settings, cores, gpu)
    )
