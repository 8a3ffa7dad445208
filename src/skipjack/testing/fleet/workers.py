"""Stand-in workers for tests of engines, which do what the text of the problem says.

They are imported by name in real worker processes: ``end:SIGKILL`` kills the process, ``fail:why``
raises an error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from skipjack.execute import WorkerProcess
from skipjack.fleet.model import JobStage, Task, TaskOutcome
from skipjack.fleet.work import captured_log


class StandIn:
    """Runs a task by the method that the problem names, with the text after the colon."""

    def __init__(self, stage: JobStage, cores: Sequence[int], gpu: str) -> None:
        self.place = f"{stage} {list(cores)} {gpu}"
        self.children: list[WorkerProcess] = []

    def perform(self, task: Task) -> TaskOutcome:
        self.task = task
        verb, _, argument = task.plan.problem.partition(":")
        facts = str(getattr(self, verb)(argument) or "")
        logging.getLogger("stand_in").info("did %s", task.plan.problem)
        return TaskOutcome(task.job, task.stage, facts=facts, artifacts=task.artifacts)

    def nothing(self, argument: str) -> None:
        """An empty task."""

    def where(self, argument: str) -> str:
        return f"{os.getpid()} {os.getppid()} {os.nice(0)} {self.place}"

    def path(self, argument: str) -> str:
        """The search path of modules."""
        return os.pathsep.join(sys.path)

    def sleep(self, argument: str) -> None:
        time.sleep(float(argument))

    def murmur(self, argument: str) -> None:
        """Log a line, and continue once a file of this name exists."""
        with captured_log(job=self.task.job, attempt=self.task.attempt):
            logging.getLogger("stand_in").warning("halfway there")
            while not Path(argument).exists():
                time.sleep(0.01)

    def end(self, argument: str) -> None:
        os.write(2, b"farewell\n")
        signal.raise_signal(signal.Signals[argument])  # does not return

    def leave(self, argument: str) -> None:
        sys.exit(argument)

    def fail(self, argument: str) -> None:
        raise RuntimeError(argument)

    def family(self, argument: str) -> str:
        """Start a child worker, and return its process id."""
        self.children.append(WorkerProcess("build"))
        return str(self.children[-1].pid)

    def close(self) -> None:
        for child in self.children:
            child.kill()


def make_stand_in(stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    """Create the worker of the kit for engines."""
    return StandIn(stage, cores, gpu)


def make_none(stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    """Fail to create a worker."""
    raise RuntimeError("no accelerator here")
