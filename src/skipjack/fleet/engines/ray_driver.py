"""The Ray driver process: ``python -m skipjack.fleet.engines.ray_driver drive PARENT``.

Ray ends a driver whose cluster is gone (a minute after its head died, and at once when another
head replaces it). So the coordinator is not the driver, but this process, whose end loses only its
running tasks. It ends with its parent, and its actors end with it.

It receives ``submit``, ``skip`` and ``kill``, and sends ``up``, ``fell``, ``answers``, ``hosts``,
``note`` and ``failed``. Each worker process of a slot has a number, its life, so that no message
reaches another one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from skipjack.errors import SkipjackError
from skipjack.execute import set_up_worker, wire
from skipjack.fleet.engines.ray_cluster import (
    NodeReport,
    RayNode,
    WorkerPlacement,
    connect,
    nodes,
    ray_module,
    reason_of,
    refusal,
    worker_placements,
)
from skipjack.fleet.engines.ray_workers import actor_class, describe_node, end_process
from skipjack.fleet.model import JobStage
from skipjack.processes import SAFE_DIRECTORY, environment_for
from skipjack.reading import read_json

LOOK_EVERY_S = 1.0
"""Interval at which the nodes are listed."""
HEAD_SILENT_S = 15.0
"""A head that does not list its nodes for this long is gone."""
DESCRIBE_AGAIN_S = 30.0
_LONG_PAUSE_S = 3.0
"""A longer turn means that this process was blocked: deadlines of workers are extended."""
_LONGEST_PAUSE_S = 30.0
_POLITE = (
    "{} runs evaluators at niceness {}, below other processes; set RAY_worker_niceness=0 for "
    "ray start there"
)

Event = Callable[[], None]


@dataclass(slots=True, eq=False)
class _WorkerLife:
    """One actor, from its start to its end."""

    placement: WorkerPlacement
    node: RayNode
    number: int
    handle: Any
    heard: float = field(default_factory=time.monotonic)
    ready: bool = False
    fallen: bool = False
    process: tuple[int, str] = (0, "")


@dataclass(slots=True, eq=False)
class _KnownNode:
    """A node with its description, and its workers by slot."""

    node: RayNode
    report: NodeReport | None = None
    asked: float = 0.0
    lives: dict[str, _WorkerLife] = field(default_factory=dict)
    falls: dict[str, int] = field(default_factory=dict)
    """Number of workers in a row that did not start."""
    due: dict[str, float] = field(default_factory=dict)
    """When the worker of a slot is started again."""


class RayDriver:
    """All state belongs to the thread that calls `run`; other threads put events in a queue."""

    def __init__(self, options: dict[str, Any], answers: BinaryIO) -> None:
        self._options, self._answers = options, answers
        self._stall_s = float(options["stall_s"])
        self._wait_s = min(5.0, self._stall_s / 3)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._known: dict[str, _KnownNode] = {}
        self._slots: dict[str, _WorkerLife] = {}
        self._lives = 0
        self._send_lock = threading.Lock()
        self._head_seen = time.monotonic()
        self._sent_hosts: list[dict[str, Any]] = []

    def run(self, requests: BinaryIO) -> None:
        """Join the cluster and serve until the parent closes the pipe."""
        self._send_message("joined", cluster=connect(self._options["address"]))
        self._actor = actor_class()
        self._head_seen = time.monotonic()
        for target in (lambda: self._read(requests), self._watch, self._watch_head):
            threading.Thread(target=target, daemon=True).start()
        looked = time.monotonic()
        while True:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=LOOK_EVERY_S)()
            self._extend_deadlines(time.monotonic() - looked)
            self._check_workers()
            looked = time.monotonic()

    def _extend_deadlines(self, pause_s: float) -> None:
        if pause_s > _LONG_PAUSE_S:
            for life in self._slots.values():
                life.heard += pause_s

    def _send_message(self, kind: str, blobs: Sequence[bytes] = (), **more: Any) -> None:
        with self._send_lock:
            wire.send(self._answers, {"kind": kind, **more}, blobs)

    # Other threads

    def _read(self, requests: BinaryIO) -> None:
        while (message := wire.receive(requests.read)) is not None:
            self._events.put(lambda message=message: self._handle_request(message))  # type: ignore[misc]
        os._exit(0)  # the parent is gone; actors end with their driver

    def _watch(self) -> None:
        while True:
            found = nodes()
            self._head_seen = time.monotonic()
            self._events.put(lambda found=found: self._note_nodes(found))  # type: ignore[misc]
            time.sleep(LOOK_EVERY_S)

    def _watch_head(self) -> None:
        """Fail when the head is gone: calls to Ray may block for a minute, then end the process."""
        looked = time.monotonic()
        while looked - self._head_seen < HEAD_SILENT_S:
            time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            if now - looked > _LONG_PAUSE_S:
                self._head_seen += now - looked
            looked = now
        silent = f"the head of the Ray cluster was silent for {HEAD_SILENT_S:g} s"
        self._send_message("failed", reason=silent, usage=False)
        os._exit(1)

    def _when_done(
        self, ref: Any, act: Callable[[bytes], None], fail: Callable[[str], None]
    ) -> None:
        """Call one of these in our thread when Ray has the result."""

        def come(future: Any) -> None:
            error = future.exception()
            if error is None:
                result = future.result()
                self._events.put(lambda: act(result))
            else:
                reason = reason_of(error)
                self._events.put(lambda: fail(reason))

        ref.future().add_done_callback(come)

    # Nodes

    def _note_nodes(self, found: Sequence[RayNode]) -> None:
        self._send_message("alive")
        alive = {node.id for node in found}
        for node in found:
            self._known.setdefault(node.id, _KnownNode(node, asked=-DESCRIBE_AGAIN_S))
        for gone in [known for known in self._known.values() if known.node.id not in alive]:
            del self._known[gone.node.id]
            left = "the node left the cluster"
            for life in list(gone.lives.values()):
                self._fall(life, left, back=False)
            for name in gone.due:  # it ended before, and is not started again
                self._send_message("fell", slot=name, reason=left, back=False, guilty=False)
        for known in self._known.values():
            if known.report is None and time.monotonic() - known.asked > DESCRIBE_AGAIN_S:
                self._describe(known)
        self._send_hosts()

    def _describe(self, known: _KnownNode) -> None:
        known.asked = time.monotonic()
        ref = self._on_node(describe_node, known.node, known.node.name)
        called = known.node.name or known.node.id[:6]
        self._when_done(
            ref,
            lambda text: self._described(known, NodeReport.of(text)),
            lambda reason: self._send_message("note", text=f"node {called} gets no work: {reason}"),
        )

    def _described(self, known: _KnownNode, report: NodeReport) -> None:
        known.report = report
        refused = refusal(report)
        if refused:
            self._send_message("note", text=refused)
            return
        self._send_hosts()
        counts = self._options["builders"], self._options["evaluators"]
        for placement in worker_placements(known.node, report, *counts):
            self._start(known, placement)

    def _send_hosts(self) -> None:
        met = [known.report for known in self._known.values() if known.report]
        hosts = [asdict(report.host) for report in met if not refusal(report)]
        if hosts != self._sent_hosts:
            self._send_message("hosts", hosts=hosts)
            self._sent_hosts = hosts

    def _on_node(self, work: Any, node: RayNode, *arguments: Any) -> Any:
        remote = ray_module().remote(num_cpus=0, max_retries=0)(work)
        return remote.options(scheduling_strategy=_pinned(node)).remote(*arguments)

    # Workers

    def _start(self, known: _KnownNode, placement: WorkerPlacement) -> None:
        self._lives += 1
        options: dict[str, Any] = {"num_cpus": placement.cpus, "num_gpus": placement.gpus}
        options["resources"] = dict.fromkeys(placement.resources, 1)
        options["scheduling_strategy"] = _pinned(known.node)
        slot = placement.slot
        handle = self._actor.options(**options).remote(
            slot.name,
            str(slot.stage),
            self._options["factory"],
            placement.cores,
            self._options["environment"],
        )
        life = _WorkerLife(placement, known.node, self._lives, handle)
        known.lives[slot.name] = self._slots[slot.name] = life
        self._when_done(
            handle.hello.remote(),
            lambda text: self._up(life, text),
            lambda reason: self._fall(life, reason),
        )

    def _up(self, life: _WorkerLife, text: bytes) -> None:
        if life.fallen:
            return
        greeting = read_json(text, "a worker's greeting").mapping()
        life.ready, life.process = True, (greeting["pid"], greeting["born"])
        self._known[life.node.id].falls.pop(life.placement.slot.name, None)
        slot = asdict(life.placement.slot)
        slot["gpu"] = greeting["gpu"] or slot["gpu"]
        self._send_message("up", slot=slot, life=life.number, pid=greeting["pid"])
        if life.placement.slot.stage is JobStage.EVALUATE and greeting["nice"] > 0:
            self._send_message("note", text=_POLITE.format(slot["host"], greeting["nice"]))
        self._ask(life)

    def _ask(self, life: _WorkerLife) -> None:
        life.heard = time.monotonic()
        self._when_done(
            life.handle.answers.remote(self._wait_s),
            lambda batch: self._pass_on(life, batch),
            lambda reason: self._fall(life, reason),
        )

    def _pass_on(self, life: _WorkerLife, batch: bytes) -> None:
        if life.fallen:
            return
        if batch:
            self._send_message("answers", [batch], slot=life.placement.slot.name)
        self._ask(life)

    def _fall(
        self, life: _WorkerLife, reason: str, *, back: bool = True, guilty: bool = True
    ) -> None:
        """End a worker that failed; another one starts unless the node is gone too."""
        if life.fallen:
            return
        life.fallen = True
        name = life.placement.slot.name
        del self._slots[name]
        ray_module().kill(life.handle, no_restart=True)
        known = self._known.get(life.node.id)
        if known:
            # A stopped process does not react to Ray.
            self._on_node(end_process, life.node, *life.process)
            del known.lives[name]
            falls = known.falls[name] = 0 if life.ready else known.falls.get(name, 0) + 1
            known.due[name] = time.monotonic() + min(2.0**falls - 1.0, _LONGEST_PAUSE_S)
            if not life.ready:
                self._send_message("note", text=f"{name} did not start: {reason}")
        guilty = guilty and life.ready
        self._send_message(
            "fell", slot=name, reason=reason, back=back and bool(known), guilty=guilty
        )

    def _check_workers(self) -> None:
        """End workers without heartbeats, and start those that are due."""
        now = time.monotonic()
        for life in list(self._slots.values()):
            if life.ready and now - life.heard > self._stall_s:
                self._fall(life, f"sent no heartbeat for {self._stall_s:g} s and was ended")
        for known in self._known.values():
            for name in [name for name, due in known.due.items() if due <= now]:
                del known.due[name]
                assert known.report  # it has had workers
                counts = self._options["builders"], self._options["evaluators"]
                for placement in worker_placements(known.node, known.report, *counts):
                    if placement.slot.name == name:
                        self._start(known, placement)

    # Requests of the engine

    def _handle_request(self, message: wire.Message) -> None:
        body = message.body
        life = self._slots.get(body["slot"])
        if life is None or life.number != body["life"]:
            return  # it ended meanwhile; the parent will be told
        if body["kind"] == "submit":
            life.handle.work.remote(body["tickets"], message.blobs[0])
        elif body["kind"] == "skip":
            life.handle.skip.remote(body["tickets"])
        elif body["kind"] == "kill":
            self._fall(life, "cancelled", guilty=False)


def _pinned(node: RayNode) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node.id, soft=False)


def _leave_the_current_directory() -> None:
    """Ray's workers look for modules in the driver's current directory first."""
    os.environ.update(environment_for(SAFE_DIRECTORY, os.environ))
    os.chdir(SAFE_DIRECTORY)


def main() -> None:
    """Read the options from the pipe, then run the driver."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["drive"])
    parser.add_argument("parent", type=int)
    requests, answers = set_up_worker(parser.parse_args().parent)
    options = wire.receive(requests.read)
    if options is None:
        return
    _leave_the_current_directory()
    try:
        RayDriver(options.body, answers).run(requests)
    except Exception as error:
        said = str(error) if isinstance(error, SkipjackError) else reason_of(error)
        usage = getattr(error, "exit_code", 1) == 2
        wire.send(answers, {"kind": "failed", "reason": said, "usage": usage})
        # Without Ray's own shutdown, which waits for a head that is gone.
        os._exit(1)


if __name__ == "__main__":
    main()
