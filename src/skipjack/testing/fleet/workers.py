"""Stand-in workers, which do what the problem's text says, for tests of an engine.

They are imported by name in real worker processes: ``end:SIGKILL`` kills one, ``fail:why`` raises.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from skipjack.execute.process import WorkerProcess
from skipjack.fleet.engines import Outcome, Stage, Task, captured_log


class StandIn:
    """Does a task by the method that the problem names, with the text after the colon."""

    def __init__(self, stage: Stage, cores: Sequence[int], gpu: str) -> None:
        self.place = f"{stage} {list(cores)} {gpu}"
        self.children: list[WorkerProcess] = []

    def perform(self, task: Task) -> Outcome:
        self.task = task
        verb, _, argument = task.plan.problem.partition(":")
        facts = str(getattr(self, verb)(argument) or "")
        logging.getLogger("stand_in").info("did %s", task.plan.problem)
        return Outcome(task.job, task.stage, facts=facts, artifacts=task.artifacts)

    def nothing(self, argument: str) -> None:
        """An empty task."""

    def where(self, argument: str) -> str:
        return f"{os.getpid()} {os.getppid()} {os.nice(0)} {self.place}"

    def path(self, argument: str) -> str:
        """Where modules are looked for."""
        return os.pathsep.join(sys.path)

    def sleep(self, argument: str) -> None:
        time.sleep(float(argument))

    def murmur(self, argument: str) -> None:
        """Log something, and go on once there is a file of this name."""
        with captured_log(job=self.task.job, attempt=self.task.attempt):
            logging.getLogger("stand_in").warning("halfway there")
            while not Path(argument).exists():
                time.sleep(0.01)

    def end(self, argument: str) -> None:
        os.write(2, b"farewell\n")
        signal.raise_signal(signal.Signals[argument])  # this thread goes no further

    def leave(self, argument: str) -> None:
        sys.exit(argument)

    def fail(self, argument: str) -> None:
        raise RuntimeError(argument)

    def family(self, argument: str) -> str:
        """Start a worker of one's own; gives its process id."""
        self.children.append(WorkerProcess("build"))
        return str(self.children[-1].pid)

    def close(self) -> None:
        for child in self.children:
            child.kill()


def make_stand_in(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    """The worker of the kit for engines."""
    return StandIn(stage, cores, gpu)


def make_none(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    """No worker: it does not start."""
    raise RuntimeError("no accelerator here")
