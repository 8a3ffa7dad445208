"""Workers that do what the problem's text says, imported by name in real worker processes."""

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from skipjack.execute.process import WorkerProcess
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.worker_log import captured_log


class StandIn:
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
        os.kill(os.getpid(), signal.Signals[argument])

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


class _Empty:
    def perform(self, task: Task) -> Outcome:
        return Outcome(task.job, task.stage)

    def close(self) -> None:
        pass


def make_stand_in(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    return StandIn(stage, cores, gpu)


def make_empty(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> _Empty:
    return _Empty()


def make_none(stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> StandIn:
    raise RuntimeError("no accelerator here")
