"""Where fleet workers begin: ``python -m skipjack.fleet.worker build|evaluate PARENT --slot NAME``.

A worker takes frames of tasks (`fleet.parcel`) from its parent and gives outcomes back in order. A
thread of its own says once a second that the process lives, whatever the task is at, and what was
logged of the task so far.
"""

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

from skipjack.execute import wire
from skipjack.execute.worker import core_list, settle_in
from skipjack.fleet.host import disk_shortage
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work import Worker
from skipjack.fleet.worker_log import open_worker_log, said_so_far
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

DEFAULT_FACTORY = "skipjack.fleet.work:make_worker"
SIGN_EVERY_S = 1.0
"""Between two signs of life."""
_NICENESS = 10


class Factory(Protocol):
    """Makes the worker that does the tasks, as `skipjack.fleet.work.make_worker` does."""

    def __call__(self, stage: Stage, *, cores: Sequence[int] = (), gpu: str = "") -> Worker:
        """A worker for a stage."""
        ...


def name_of(factory: Factory) -> str:
    """How a factory is named to another process: it must be a module's."""
    return f"{factory.__module__}:{getattr(factory, '__name__', '')}"


def named(factory: str) -> Factory:
    """The factory that `name_of` named."""
    module, _, attribute = factory.partition(":")
    return cast(Factory, getattr(importlib.import_module(module), attribute))


def stand_back() -> None:
    """A builder lets what is being timed beside it go first."""
    os.nice(_NICENESS)


def main(arguments: list[str] | None = None) -> None:
    """Set the process up, then serve until the parent closes the pipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", type=Stage, choices=list(Stage))
    parser.add_argument("parent", type=int)
    parser.add_argument("--slot", required=True)
    parser.add_argument("--cores", type=core_list, default=[])
    parser.add_argument("--gpu", default="")
    parser.add_argument("--factory", default=DEFAULT_FACTORY)
    options = parser.parse_args(arguments)
    requests, answers = settle_in(options.parent)
    if options.stage is Stage.BUILD:
        stand_back()
    outbox = Outbox(answers)
    settings = load_settings()
    chatty = settings.log_level == "debug"
    open_worker_log(settings.user_dir, options.slot, "debug" if chatty else "info")
    worker = named(options.factory)(options.stage, cores=options.cores, gpu=options.gpu)
    outbox.ready()
    try:
        serve(worker, requests, outbox, settings.user_dir)
    finally:
        worker.close()


def serve(worker: Worker, requests: BinaryIO, outbox: Outbox, user_dir: Path) -> None:
    """Do tasks until the pipe closes."""
    while (parcel := wire.receive(requests.read)) is not None:
        for message in unpack(parcel):
            began = time.monotonic()
            outcome = perform(worker, message, user_dir)
            outbox.put(outcome, time.monotonic() - began)


def perform(worker: Worker, message: wire.Message, user_dir: Path) -> Outcome:
    """Do a task; whatever goes wrong is an outcome too."""
    try:
        task = Task.of(message)
        shortage = disk_shortage(user_dir)
        if shortage:
            return Outcome(task.job, task.stage, failed=shortage)
        return worker.perform(task)
    except Exception as error:  # a worker that dies of it would lose the reason
        log.exception("a task failed")
        job, stage = int(message.body["job"]), Stage(message.body["stage"])
        return Outcome(job, stage, failed=f"{type(error).__name__}: {error}")


class Outbox:
    """Sends outcomes, and signs of life from a thread of its own, with what was said so far."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._give_signs, daemon=True).start()

    def ready(self) -> None:
        """Say that tasks may come."""
        self._send({"ready": True})

    def put(self, outcome: Outcome, seconds: float) -> None:
        """Send an outcome at once: if the next task ends this process, it must not be lost."""
        parcel = pack([outcome.message()], seconds=[seconds])
        self._send(parcel.body, parcel.blobs)

    def _give_signs(self) -> None:
        last = None
        while True:
            said = None
            with contextlib.suppress(Exception):  # a sign of life does not depend on what is logged
                said = said_so_far()
            news = {"said": asdict(said)} if said and said != last else {}
            self._send({"alive": True, **news})
            last = said
            time.sleep(SIGN_EVERY_S)

    def _send(self, body: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        try:
            with self._one_at_a_time:
                wire.send(self._answers, body, blobs)
        except BrokenPipeError:
            os._exit(0)  # the parent is gone, or wants nothing any more


if __name__ == "__main__":
    main()
