"""What runs on the nodes of a Ray cluster: a worker, and a look at the node.

Tasks and outcomes travel as frames (`execute.wire`), many in one call. `answers` waits for what is
done, and that it answers at all shows that the process lives.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import skipjack
from skipjack import processes
from skipjack.execute import wire
from skipjack.fleet.engine import RunningLog
from skipjack.fleet.engines.ray_cluster import ray_module
from skipjack.fleet.host import detect_host
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome
from skipjack.fleet.worker import SIGN_EVERY_S, named, perform, stand_back
from skipjack.fleet.worker_log import open_worker_log, said_so_far
from skipjack.settings import load_settings

LINGER_S = 0.02
"""While a worker has more to do, its answers are collected for this long."""
GROUPS = {"work": 1, "answers": 1, "orders": 1}
"""Threads of an actor: tasks one after the other, and two that can always be talked to."""
METHODS = {"hello": "work", "work": "work", "answers": "answers", "skip": "orders"}
"""Which of them does what."""


class WorkerActor:
    """A worker on a node. `factory` is ``module:function``, with the contract of `make_worker`."""

    def __init__(
        self,
        slot: str,
        stage: str,
        factory: str,
        cores: Sequence[int],
        environment: Mapping[str, str],
    ) -> None:
        self._slot, self._stage, self._factory = slot, Stage(stage), factory
        self._cores = tuple(cores)
        os.environ.update(environment)
        self._news = threading.Condition()
        self._done: list[tuple[int, float, Outcome]] = []
        self._skipped: set[int] = set()
        self._to_do = 0
        self._said: RunningLog | None = None

    def hello(self) -> bytes:
        """Make the worker, in the thread that will use it: its children live as long as that."""
        if self._stage is Stage.BUILD:
            stand_back()
        else:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, 0)  # Ray's workers stand back by default
        settings = load_settings()
        open_worker_log(settings.user_dir, self._slot.replace("/", "-"), settings.log_level)
        self._user_dir = settings.user_dir
        gpu = _assigned_gpu()
        self._worker = named(self._factory)(self._stage, cores=self._cores, gpu=gpu)
        pid = os.getpid()
        return json.dumps(
            {"pid": pid, "born": processes.began(pid), "gpu": gpu, "nice": os.nice(0)}
        ).encode()

    def work(self, tickets: Sequence[int], batch: bytes) -> None:
        """Do the tasks of a batch in order."""
        parcel = wire.receive(io.BytesIO(batch).read)
        messages = unpack(parcel) if parcel else []
        with self._news:
            self._to_do += len(messages)
        for ticket, message in zip(tickets, messages, strict=True):
            self._do(ticket, message)

    def _do(self, ticket: int, message: wire.Message) -> None:
        began = time.monotonic()
        skipped = ticket in self._skipped
        outcome = None if skipped else perform(self._worker, message, self._user_dir)
        with self._news:
            self._skipped.discard(ticket)
            self._to_do -= 1
            if outcome:
                self._done.append((ticket, time.monotonic() - began, outcome))
            # Who waits is woken for the first, and for the last that is worth waiting for.
            if len(self._done) == 1 or not self._to_do:
                self._news.notify()

    def answers(self, wait_s: float) -> bytes:
        """Outcomes since the last call, as a parcel, and what was said about the task at hand;
        nothing after this long, as no bytes.
        """
        ends = time.monotonic() + wait_s
        said = None
        with self._news:
            while not self._done and not said and (left_s := ends - time.monotonic()) > 0:
                self._news.wait_for(lambda: self._done, min(left_s, SIGN_EVERY_S))
                said = self._new_words()
            if self._done:
                self._news.wait_for(lambda: not self._to_do, LINGER_S)
            done, self._done = self._done, []
        if not done and not said:
            return b""
        parcel = pack(
            [outcome.message() for _, _, outcome in done],
            tickets=[ticket for ticket, _, _ in done],
            seconds=[seconds for _, seconds, _ in done],
            said=asdict(said) if said else None,
        )
        return wire.encode(parcel.body, parcel.blobs)

    def _new_words(self) -> RunningLog | None:
        said = said_so_far()
        if said == self._said:
            return None
        self._said = said
        return said

    def skip(self, tickets: Sequence[int]) -> None:
        """Do not begin these."""
        self._skipped.update(tickets)


def actor_class() -> Any:
    """`WorkerActor` as Ray wants it."""
    ray = ray_module()
    for method, group in METHODS.items():
        ray.method(concurrency_group=group)(getattr(WorkerActor, method))
    # Another process is started by us, not by Ray: only we know what was lost with the first.
    options = ray.remote(concurrency_groups=GROUPS, max_restarts=0, max_task_retries=0)
    return options(WorkerActor)


def _assigned_gpu() -> str:
    return ",".join(ray_module().get_runtime_context().get_accelerator_ids().get("GPU", []))


def end_process(pid: int, began: str) -> None:
    """Runs on an actor's node: end a process that is stopped and cannot end itself."""
    if began and processes.began(pid) == began:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def describe_node(name: str) -> bytes:
    """Runs on a node: what it is, and which Skipjack it has. No name: its own."""
    host = detect_host(name or None)
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    record: dict[str, Any] = {**asdict(host), "version": skipjack.__version__, "usable": usable}
    return json.dumps(record).encode()
