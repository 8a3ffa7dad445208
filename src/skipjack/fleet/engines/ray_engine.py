"""The engine of a Ray cluster: Ray places workers, moves tasks and notices lost workers."""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from skipjack import plugins
from skipjack.core import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.execute import WorkerDiedError, WorkerProcess, wire
from skipjack.fleet.engines.ray_cluster import RayUnreachableError, check_reachable, require_ray
from skipjack.fleet.engines.ray_workers import QueuedTask, RayWorker, batch_of
from skipjack.fleet.model import Done, Host, JobStage, RunningLog, Slot, Task
from skipjack.fleet.work import DEFAULT_FACTORY, Factory, name_of
from skipjack.settings import PLUGIN_FOLDERS, PLUGINS, Settings

log = logging.getLogger(__name__)

JOIN_S = 40.0
"""Time within which a cluster must be joined."""
WORKERS_S = 60.0
"""Time to wait for the first worker after joining; more may start at any time."""
PATIENCE_S = 300.0
"""How long the engine tries to join a lost cluster again."""
RETURN_S = 30.0
"""Time after which a slot without a new worker loses its tasks."""
_LONGEST_PAUSE_S = 15.0
_DRIVER_SILENT_S = 60.0


class RayEngine:
    """Builders and evaluators on the nodes of a cluster; see `skipjack.fleet.model.engine.Engine`.

    `builders` and `evaluators` are numbers for each node. By default a node has an evaluator for
    each GPU, or one on its CPU without GPUs, and a builder for each remaining CPU. A worker
    without a heartbeat for `stall_s` is ended like one that died. When the head is lost, all tasks
    are lost, and the engine tries for five minutes to join the cluster again.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None,
        settings: Settings,
        *,
        builders: int | None = None,
        evaluators: int | None = None,
        make_worker: Factory | None = None,
        stall_s: float = 60.0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`make_worker` is imported by name on the nodes, so it must be a module-level function."""
        require_ray()
        self._address, self._patience_s = address, patience_s
        self._options = {
            "address": address,
            "builders": builders,
            "evaluators": evaluators,
            "factory": name_of(make_worker) if make_worker else DEFAULT_FACTORY,
            "environment": _as_variables(settings, here=address is None),
            "stall_s": stall_s,
        }
        self._driver: WorkerProcess | None = None
        self._hosts: list[Host] = []
        self._workers: dict[str, RayWorker] = {}
        self._done: list[Done] = []
        self._notes: list[str] = []
        self._tickets = 0
        self._heard = self._lost_since = self._next_try = 0.0
        self._tries = 0
        self._joined = False
        self._why = ""

    # State

    def hosts(self) -> Sequence[Host]:
        """The nodes that have described themselves."""
        self._exchange(0.0)
        return list(self._hosts)

    def slots(self) -> Sequence[Slot]:
        """The workers that are ready."""
        self._exchange(0.0)
        return [worker.slot for worker in self._workers.values() if worker.up]

    def notes(self) -> Sequence[str]:
        """Messages for the user: nodes that get no work, workers that do not start."""
        return list(self._notes)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running workers by slot, each on its own node."""
        return {name: worker.pid for name, worker in self._workers.items() if worker.up}

    @property
    def driver_pid(self) -> int | None:
        """Process id of the Ray driver on this machine."""
        return self._driver.pid if self._driver else None

    # Work

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order. If it is gone, they are lost at once."""
        worker = self._workers.get(slot)
        if worker is None:
            gone = f"the worker {slot} is gone"
            self._done += [Done(slot, task.job, lost=gone, attempt=task.attempt) for task in tasks]
            return
        queue = []
        for task in tasks:
            self._tickets += 1
            queue.append(QueuedTask(self._tickets, task))
        worker.queue.extend(queue)
        if worker.up and not worker.one_at_a_time:
            self._send(worker, queue)
            self._pump()

    def poll(self, timeout_s: float) -> list[Done]:
        """Ended tasks; waits up to this long for the first."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if not self._done:
                self._exchange(max(0.0, left_s))
            if self._done or left_s <= 0:
                done, self._done = self._done, []
                return done

    def running_logs(self) -> Sequence[RunningLog]:
        """Logs of running tasks that have grown since the last call."""
        return [said for worker in self._workers.values() for said in worker.take_logs()]

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once; `poll` does not report them."""
        for worker in self._workers.values():
            tickets, at_it = worker.withdraw(frozenset(jobs))
            if tickets and worker.up:
                self._send_message(worker, "kill" if at_it else "skip", tickets=tickets)
                if at_it:  # a worker that is about to be ended gets no other tasks
                    worker.mark_down()
        self._pump()

    def _send(self, worker: RayWorker, queue: Sequence[QueuedTask]) -> None:
        if not queue:
            return
        tickets = [order.ticket for order in queue]
        self._send_message(worker, "submit", [batch_of(queue)], tickets=tickets)

    def _send_message(
        self, worker: RayWorker, kind: str, blobs: Sequence[bytes] = (), **more: Any
    ) -> None:
        if self._driver:
            body = {"kind": kind, "slot": worker.slot.name, "life": worker.life, **more}
            self._driver.post(body, blobs)

    # The driver

    def start(self) -> None:
        """Join the cluster and wait for a first worker; raises if the cluster does not answer."""
        if self._driver is None:
            check_reachable(self._address)
            self._begin()
        deadline = time.monotonic() + JOIN_S
        while not self._joined:
            if self._driver is None:
                raise RayUnreachableError(self._why)
            if time.monotonic() > deadline:
                self.close()
                raise RayUnreachableError(
                    f"the Ray cluster at {self._address or 'this machine'} could not be joined "
                    f"within {JOIN_S:g} s"
                )
            self._exchange(0.1)
        deadline = time.monotonic() + WORKERS_S
        while not self._workers and not self._notes and time.monotonic() < deadline:
            self._exchange(0.1)

    def _begin(self) -> None:
        self._heard = time.monotonic()
        self._joined = False
        # How long a cluster keeps the actors of a lost client; the default is 30 s.
        settings = {"RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2", "RAY_USAGE_STATS_ENABLED": "0"}
        settings["RAY_worker_niceness"] = (
            "0"  # for a Ray that we start: evaluators need normal priority
        )
        module = "skipjack.fleet.engines.ray_driver"
        self._driver = WorkerProcess("drive", module=module, settings=settings)
        self._driver.post(self._options)
        self._pump()

    def _pump(self) -> bool:
        try:
            return bool(self._driver and self._driver.pump())
        except WorkerDiedError:
            return False  # its last messages are still to be read

    def _exchange(self, timeout_s: float) -> None:
        """Send and receive messages; waits up to this long for one."""
        if self._driver is None:
            self._try_again(timeout_s)
            return
        waiting = [self._driver] if self._pump() else []
        readable, _, _ = select.select([self._driver], waiting, [], timeout_s)
        while readable and self._driver:
            self._read_messages(self._driver)
            if self._driver:
                readable, _, _ = select.select([self._driver], [], [], 0)
        if self._driver and time.monotonic() - self._heard > _DRIVER_SILENT_S:
            self._driver_lost("the Ray driver is silent")
        for worker in self._workers.values():
            if not worker.up and worker.queue and time.monotonic() - worker.down_since > RETURN_S:
                self._done += worker.give_up(f"no other worker started for {worker.slot.name}")

    def _read_messages(self, driver: WorkerProcess) -> None:
        try:
            messages = driver.collect()
        except WorkerDiedError as error:
            words = f": {error.words}" if error.words and error.words not in str(error) else ""
            self._driver_lost(f"the Ray driver {error}{words}")
            return
        self._heard = time.monotonic()
        for message in messages:
            self._handle_message(message)

    def _driver_lost(self, reason: str) -> None:
        """All running tasks are lost. Try again later, unless the cluster was never joined."""
        if self._driver:
            self._driver.kill()
            self._driver = None
        for worker in self._workers.values():
            self._done += worker.give_up(f"the Ray cluster was lost: {reason}")
        self._workers, self._hosts = {}, []
        now = time.monotonic()
        self._why = self._why or reason
        if self._joined:
            self._lost_since, self._tries, self._why = now, 0, reason
            log.warning("the Ray cluster was lost: %s; trying to join it again", reason)
        self._next_try = now + min(2.0**self._tries, _LONGEST_PAUSE_S)
        self._tries += 1

    def _try_again(self, timeout_s: float) -> None:
        now = time.monotonic()
        if not self._lost_since:
            self.start()
        elif now - self._lost_since > self._patience_s:
            raise SkipjackError(
                f"the Ray cluster at {self._address or 'this machine'} was lost and could not be "
                f"joined again within {self._patience_s:g} s: {self._why}; "
                "run the same command again when it is back"
            )
        elif now >= self._next_try:
            self._why = ""
            self._begin()
        else:
            time.sleep(min(timeout_s, self._next_try - now))

    # Messages of the driver

    def _handle_message(self, message: wire.Message) -> None:
        body = message.body
        match body["kind"]:
            case "joined":
                self._joined, self._lost_since, self._tries, self._why = True, 0.0, 0, ""
                log.info("joined %s", body["cluster"])
            case "hosts":
                self._hosts = [_host(record) for record in body["hosts"]]
            case "up":
                self._up(_slot(body["slot"]), body["life"], body["pid"])
            case "fell":
                self._fell(body["slot"], body["reason"], body["back"], body["guilty"])
            case "answers":
                self._settle(body["slot"], message.blobs[0])
            case "note":
                self._note(body["text"])
            case "failed":
                self._failed(body["reason"], body["usage"])

    def _up(self, slot: Slot, life: int, pid: int) -> None:
        before = self._workers.get(slot.name)
        worker = self._workers[slot.name] = RayWorker(slot, life, pid)
        if before:
            worker.queue, worker.one_at_a_time = before.queue, before.one_at_a_time
        self._send(worker, list(worker.queue)[: 1 if worker.one_at_a_time else None])
        self._pump()

    def _fell(self, name: str, reason: str, back: bool, guilty: bool) -> None:
        """Handle the end of a worker: a task that was alone in its queue is lost with it.

        If there were several, it is unknown which one ended the worker, so none is lost, and the
        next worker gets them one by one.
        """
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.mark_down()
        lost = f"the worker {name} is lost: {reason}"
        if guilty:
            log.warning("%s", lost)
            alone = worker.one_at_a_time or len(worker.queue) == 1
            if alone and worker.queue:
                self._done.append(worker.lose_first(lost))
            worker.one_at_a_time = bool(worker.queue) and not alone
        if not back:
            self._done += worker.give_up(lost)
            del self._workers[name]

    def _settle(self, slot: str, answers: bytes) -> None:
        worker = self._workers.get(slot)
        if worker is None:
            return
        self._done += worker.answered(answers)
        if worker.one_at_a_time:
            self._send(worker, list(worker.queue)[:1])
            worker.one_at_a_time = bool(worker.queue)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)
            log.warning("%s", text)

    def _failed(self, reason: str, usage: bool) -> None:
        if usage:
            self.close()
            raise UsageError(reason)
        self._why = reason
        self._driver_lost(reason)

    # The end

    def close(self) -> None:
        """End the driver, and with it all workers."""
        if self._driver:
            self._driver.kill()
            self._driver = None
        self._workers, self._hosts = {}, []

    def __enter__(self) -> RayEngine:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _as_variables(settings: Settings, *, here: bool) -> dict[str, str]:
    """Settings for all nodes, which have their own user directories and cores."""
    variables = {"SKIPJACK_LOG_LEVEL": settings.log_level, "SKIPJACK_BUILD_WORKERS": "1"}
    if here:
        variables["SKIPJACK_USER_DB_PATH"] = str(settings.user_dir)
    named = settings.plugins or PLUGINS.text().split(os.pathsep)
    if any(named):
        variables[plugins.VARIABLE] = os.pathsep.join(map(plugins.absolute, named))
    if here and (folders := PLUGIN_FOLDERS.text()):
        variables[plugins.FOLDERS] = folders
    return variables


def _host(record: dict[str, Any]) -> Host:
    devices = tuple(map(Device.from_record, record["devices"]))
    return Host(record["name"], record["cores"], record["memory_bytes"], devices)


def _slot(record: dict[str, Any]) -> Slot:
    return Slot(
        record["name"],
        JobStage(record["stage"]),
        record["host"],
        tuple(map(Device.from_record, record["devices"])),
        record["gpu"],
    )
