"""The worker process: ``python -m skipjack.fleet.work.worker STAGE PARENT --slot NAME``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from skipjack.execute import core_list, set_up_worker, wire
from skipjack.fleet.host import disk_shortage
from skipjack.fleet.model import JobStage, Task, TaskOutcome, pack_batch, unpack_batch
from skipjack.fleet.work.worker_log import open_worker_log, running_log
from skipjack.settings import load_settings
from skipjack.storage import user_directory

# Workers build a round of a job, or evaluate it on its device.


class Worker(Protocol):
    """Does one task after another, and keeps what they share."""

    def perform(self, task: Task) -> TaskOutcome:
        """Do a task. Failures are part of the outcome; no exceptions are raised."""

    def close(self) -> None:
        """End all processes that were started."""


def make_worker(stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> Worker:
    """A worker for this machine. An evaluator times on these cores, or on those of the settings.
    Tasks for GPUs run on `gpu` (``cuda:0``, or a number), or on the first one that fits.
    """
    from skipjack import plugins
    from skipjack.fleet.work.stages import BuildingWorker, MeasuringWorker

    settings = load_settings()
    user_directory(settings)  # peaks are stored there; a new machine has no directory
    plugins.load(settings.plugins)
    return (
        BuildingWorker(settings)
        if stage is JobStage.BUILD
        else MeasuringWorker(settings, cores, gpu)
    )


# The worker process: ``python -m skipjack.fleet.work.worker build|evaluate PARENT --slot NAME``.
#
# A worker reads batches of tasks from its parent and sends the outcomes back in order. A second
# thread sends a heartbeat once a second, independent of the task, with the log of the task so far.

log = logging.getLogger(__name__)

DEFAULT_FACTORY = "skipjack.fleet.work.worker:make_worker"
HEARTBEAT_S = 1.0
"""Interval of heartbeats."""
_NICENESS = 10


class Factory(Protocol):
    """Makes the worker that does the tasks, like `skipjack.fleet.work.worker.make_worker`."""

    def __call__(self, stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> Worker:
        """Make a worker for a stage."""
        ...


def name_of(factory: Factory) -> str:
    """The name of a factory for another process; it must be a module-level function."""
    return f"{factory.__module__}:{getattr(factory, '__name__', '')}"


def named(factory: str) -> Factory:
    """The factory with a name from `name_of`."""
    module, _, attribute = factory.partition(":")
    return cast(Factory, getattr(importlib.import_module(module), attribute))


def lower_priority() -> None:
    """Lower the priority of a builder, so that it does not disturb what is timed."""
    os.nice(_NICENESS)


def main(arguments: list[str] | None = None) -> None:
    """Set up the process, then serve until the parent closes the pipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", type=JobStage, choices=list(JobStage))
    parser.add_argument("parent", type=int)
    parser.add_argument("--slot", required=True)
    parser.add_argument("--cores", type=core_list, default=[])
    parser.add_argument("--gpu", default="")
    parser.add_argument("--factory", default=DEFAULT_FACTORY)
    options = parser.parse_args(arguments)
    requests, answers = set_up_worker(options.parent)
    if options.stage is JobStage.BUILD:
        lower_priority()
    outbox = OutcomeSender(answers)
    settings = load_settings()
    chatty = settings.log_level == "debug"
    open_worker_log(settings.user_dir, options.slot, "debug" if chatty else "info")
    worker = named(options.factory)(options.stage, cores=options.cores, gpu=options.gpu)
    outbox.ready()
    try:
        serve(worker, requests, outbox, settings.user_dir)
    finally:
        worker.close()


def serve(worker: Worker, requests: BinaryIO, outbox: OutcomeSender, user_dir: Path) -> None:
    """Do tasks until the pipe closes."""
    while (batch := wire.receive(requests.read)) is not None:
        for message in unpack_batch(batch):
            began = time.monotonic()
            outcome = run_message(worker, message, user_dir)
            outbox.put(outcome, time.monotonic() - began)


def run_message(worker: Worker, message: wire.Message, user_dir: Path) -> TaskOutcome:
    """Run the task of a message; any exception becomes a failed outcome."""
    try:
        task = Task.of(message)
        shortage = disk_shortage(user_dir)
        if shortage:
            return TaskOutcome(task.job, task.stage, failed=shortage)
        return worker.perform(task)
    except Exception as error:  # if the worker died, the reason would be lost
        log.exception("a task failed")
        job, stage = int(message.body["job"]), JobStage(message.body["stage"])
        return TaskOutcome(job, stage, failed=f"{type(error).__name__}: {error}")


class OutcomeSender:
    """Sends outcomes, and from a second thread heartbeats with the log so far."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def ready(self) -> None:
        """Report that the worker is ready for tasks."""
        self._send({"ready": True})

    def put(self, outcome: TaskOutcome, seconds: float) -> None:
        """Send an outcome at once, so that it is not lost if the next task ends this process."""
        batch = pack_batch([outcome.message()], seconds=[seconds])
        self._send(batch.body, batch.blobs)

    def _send_heartbeats(self) -> None:
        last = None
        while True:
            said = None
            with contextlib.suppress(Exception):  # a heartbeat does not depend on the log
                said = running_log()
            news = {"said": asdict(said)} if said and said != last else {}
            self._send({"alive": True, **news})
            last = said
            time.sleep(HEARTBEAT_S)

    def _send(self, body: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        try:
            with self._one_at_a_time:
                wire.send(self._answers, body, blobs)
        except BrokenPipeError:
            os._exit(0)  # the parent has ended or closed the pipe


if __name__ == "__main__":
    main()
