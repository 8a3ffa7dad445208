"""A fleet worker with an empty kernel: it answers at once. Workers import it by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skipjack.fleet.model import JobStage, Task, TaskOutcome

FACTS = '{"format":1,"tables":{}}'
RESULT = {"status": "measured", "toolchain": "none"}


class Empty:
    """Every job is finished as soon as it begins."""

    def perform(self, task: Task) -> TaskOutcome:
        """Say that it is done."""
        return empty_outcome(task)

    def close(self) -> None:
        """Nothing to let go of."""


def empty_outcome(task: Task) -> TaskOutcome:
    """What comes of an empty kernel: a build, or the verdict of a single trial."""
    if task.stage is JobStage.BUILD:
        return TaskOutcome(task.job, task.stage, facts=FACTS)
    return TaskOutcome(
        task.job, task.stage, finished=True, facts=FACTS, trials=1, best_ns=1.0, result=RESULT
    )


def make_empty(stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> Empty:
    """As `skipjack.fleet.work.worker.make_worker`."""
    del stage, cores, gpu
    return Empty()


def importable_in_workers() -> None:
    """Let processes that are started from now on find the modules of this folder."""
    here = str(Path(__file__).resolve().parent)
    before = os.environ.get("PYTHONPATH")
    if not before or here not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, before]))
