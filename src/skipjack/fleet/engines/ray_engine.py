"""The engine of a Ray cluster: Ray places the workers, moves the tasks and notices who died."""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from skipjack import plugins
from skipjack.core.device import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.execute import wire
from skipjack.execute.process import WorkerDiedError, WorkerProcess
from skipjack.fleet.engine import Done, Host, RunningLog, Slot
from skipjack.fleet.engines.ray_cluster import RayUnreachableError, check_reachable, require_ray
from skipjack.fleet.engines.ray_desk import Desk, Order, batch_of
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Task
from skipjack.fleet.worker import DEFAULT_FACTORY, Factory, name_of
from skipjack.settings import PLUGIN_FOLDERS, PLUGINS, Settings

log = logging.getLogger(__name__)

JOIN_S = 40.0
"""A cluster that could not be joined by then is not usable."""
WORKERS_S = 60.0
"""After joining, until a first worker is there; more may come at any time."""
PATIENCE_S = 300.0
"""How long it is tried to join a cluster again that was lost."""
RETURN_S = 30.0
"""A slot whose worker fell and that has no other by then loses what it had to do."""
_LONGEST_PAUSE_S = 15.0
_DRIVER_SILENT_S = 60.0


class RayEngine:
    """Builders and evaluators on the nodes of a cluster; see `skipjack.fleet.engine.Engine`.

    `builders` and `evaluators` count for each node. By default a node has an evaluator for each
    GPU, or one on its CPU if it has none, and a builder for each CPU that is left. A worker that
    is silent for `stall_s` is ended like one that died. When the head is lost, all tasks are, and
    it is tried for five minutes to join the cluster again.
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
        """`make_worker` is imported by its name on the nodes, so it must be a module's."""
        require_ray()
        self._address, self._patience_s = address, patience_s
        self._order = {
            "address": address,
            "builders": builders,
            "evaluators": evaluators,
            "factory": name_of(make_worker) if make_worker else DEFAULT_FACTORY,
            "environment": _as_variables(settings, here=address is None),
            "stall_s": stall_s,
        }
        self._driver: WorkerProcess | None = None
        self._hosts: list[Host] = []
        self._desks: dict[str, Desk] = {}
        self._done: list[Done] = []
        self._notes: list[str] = []
        self._tickets = 0
        self._heard = self._lost_since = self._next_try = 0.0
        self._tries = 0
        self._joined = False
        self._why = ""

    # What there is

    def hosts(self) -> Sequence[Host]:
        """The nodes that described themselves."""
        self._exchange(0.0)
        return list(self._hosts)

    def slots(self) -> Sequence[Slot]:
        """The workers that are ready."""
        self._exchange(0.0)
        return [desk.slot for desk in self._desks.values() if desk.up]

    def notes(self) -> Sequence[str]:
        """What a person should know: nodes that get no work, workers that do not start."""
        return list(self._notes)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the living workers by slot, each on its own node."""
        return {name: desk.pid for name, desk in self._desks.items() if desk.up}

    @property
    def driver_pid(self) -> int | None:
        """The process here that Ray talks to."""
        return self._driver.pid if self._driver else None

    # Work

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order. One that is gone loses them at once."""
        desk = self._desks.get(slot)
        if desk is None:
            gone = f"the worker {slot} is gone"
            self._done += [Done(slot, task.job, lost=gone, attempt=task.attempt) for task in tasks]
            return
        orders = []
        for task in tasks:
            self._tickets += 1
            orders.append(Order(self._tickets, task))
        desk.orders.extend(orders)
        if desk.up and not desk.careful:
            self._send(desk, orders)
            self._pump()

    def poll(self, timeout_s: float) -> list[Done]:
        """What is done, waiting up to this long for the first."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if not self._done:
                self._exchange(max(0.0, left_s))
            if self._done or left_s <= 0:
                done, self._done = self._done, []
                return done

    def heard(self) -> Sequence[RunningLog]:
        """What workers have said about the tasks they are at, where it grew."""
        return [said for desk in self._desks.values() for said in desk.take_said()]

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once; they do not come out of `poll`."""
        for desk in self._desks.values():
            tickets, at_it = desk.withdraw(frozenset(jobs))
            if tickets and desk.up:
                self._tell(desk, "kill" if at_it else "skip", tickets=tickets)
                if at_it:  # others are not sent to a worker that is about to be ended
                    desk.fall()
        self._pump()

    def _send(self, desk: Desk, orders: Sequence[Order]) -> None:
        if not orders:
            return
        tickets = [order.ticket for order in orders]
        self._tell(desk, "submit", [batch_of(orders)], tickets=tickets)

    def _tell(self, desk: Desk, kind: str, blobs: Sequence[bytes] = (), **more: Any) -> None:
        if self._driver:
            body = {"kind": kind, "slot": desk.slot.name, "life": desk.life, **more}
            self._driver.post(body, blobs)

    # The driver

    def start(self) -> None:
        """Join the cluster and wait for a first worker; raises if the cluster is not there."""
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
        while not self._desks and not self._notes and time.monotonic() < deadline:
            self._exchange(0.1)

    def _begin(self) -> None:
        self._heard = time.monotonic()
        self._joined = False
        # So long a cluster keeps the actors of a client that is gone; by default it is 30 s.
        settings = {"RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2", "RAY_USAGE_STATS_ENABLED": "0"}
        settings["RAY_worker_niceness"] = "0"  # of a Ray of our own: what is timed stands back else
        module = "skipjack.fleet.engines.ray_driver"
        self._driver = WorkerProcess("drive", module=module, settings=settings)
        self._driver.post(self._order)
        self._pump()

    def _pump(self) -> bool:
        try:
            return bool(self._driver and self._driver.pump())
        except WorkerDiedError:
            return False  # what it said last is still to be read

    def _exchange(self, timeout_s: float) -> None:
        """Send and receive what there is, waiting up to this long for something."""
        if self._driver is None:
            self._try_again(timeout_s)
            return
        waiting = [self._driver] if self._pump() else []
        readable, _, _ = select.select([self._driver], waiting, [], timeout_s)
        while readable and self._driver:
            self._listen(self._driver)
            if self._driver:
                readable, _, _ = select.select([self._driver], [], [], 0)
        if self._driver and time.monotonic() - self._heard > _DRIVER_SILENT_S:
            self._driver_lost("the Ray driver is silent")
        for desk in self._desks.values():
            if not desk.up and desk.orders and time.monotonic() - desk.fell > RETURN_S:
                self._done += desk.give_up(f"no other worker took the place of {desk.slot.name}")

    def _listen(self, driver: WorkerProcess) -> None:
        try:
            messages = driver.collect()
        except WorkerDiedError as error:
            words = f": {error.words}" if error.words and error.words not in str(error) else ""
            self._driver_lost(f"the Ray driver {error}{words}")
            return
        self._heard = time.monotonic()
        for message in messages:
            self._understand(message)

    def _driver_lost(self, reason: str) -> None:
        """All that ran is lost. Try again later, unless it was the first time."""
        if self._driver:
            self._driver.kill()
            self._driver = None
        for desk in self._desks.values():
            self._done += desk.give_up(f"the Ray cluster was lost: {reason}")
        self._desks, self._hosts = {}, []
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
                "run the same command again once it is back"
            )
        elif now >= self._next_try:
            self._why = ""
            self._begin()
        else:
            time.sleep(min(timeout_s, self._next_try - now))

    # What it says

    def _understand(self, message: wire.Message) -> None:
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
        before = self._desks.get(slot.name)
        desk = self._desks[slot.name] = Desk(slot, life, pid)
        if before:
            desk.orders, desk.careful = before.orders, before.careful
        self._send(desk, list(desk.orders)[: 1 if desk.careful else None])
        self._pump()

    def _fell(self, name: str, reason: str, back: bool, guilty: bool) -> None:
        """A task that was alone with its worker is lost with it.

        Of several, those that were done may not have been heard of: nobody is blamed, and the next
        worker gets them one by one.
        """
        desk = self._desks.get(name)
        if desk is None:
            return
        desk.fall()
        lost = f"the worker {name} is lost: {reason}"
        if guilty:
            log.warning("%s", lost)
            alone = desk.careful or len(desk.orders) == 1
            if alone and desk.orders:
                self._done.append(desk.lose_first(lost))
            desk.careful = bool(desk.orders) and not alone
        if not back:
            self._done += desk.give_up(lost)
            del self._desks[name]

    def _settle(self, slot: str, answers: bytes) -> None:
        desk = self._desks.get(slot)
        if desk is None:
            return
        self._done += desk.answered(answers)
        if desk.careful:
            self._send(desk, list(desk.orders)[:1])
            desk.careful = bool(desk.orders)

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
        self._desks, self._hosts = {}, []

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
    """What goes for all nodes; where their user directories and cores are, they know themselves."""
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
        Stage(record["stage"]),
        record["host"],
        tuple(map(Device.from_record, record["devices"])),
        record["gpu"],
    )
