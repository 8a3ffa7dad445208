"""The process that is a Ray driver: ``python -m skipjack.fleet.engines.ray_driver drive PARENT``.

Ray ends a driver whose cluster is gone (a minute after its head died, and at once when another
head took its place), so the coordinator is none: this process is, and its fall costs tasks only. It
dies with its parent, and its actors die with it.

It is told ``submit``, ``skip`` and ``kill``, and tells ``up``, ``fell``, ``answers``, ``hosts``,
``note`` and ``failed``; each life of a slot has a number, so that no message reaches another life.
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

from skipjack.children import SAFE_DIRECTORY, environment_for
from skipjack.errors import SkipjackError
from skipjack.execute import wire
from skipjack.execute.worker import settle_in
from skipjack.fleet.engines.ray_actors import actor_class, describe_node, end_process
from skipjack.fleet.engines.ray_cluster import (
    Node,
    NodeReport,
    Place,
    connect,
    nodes,
    places,
    ray_module,
    reason_of,
    refusal,
)
from skipjack.fleet.states import Stage
from skipjack.reading import read_json

LOOK_EVERY_S = 1.0
"""Between two looks at the nodes."""
HEAD_SILENT_S = 15.0
"""A head that does not say for so long which nodes there are is gone."""
DESCRIBE_AGAIN_S = 30.0
_LONG_PAUSE_S = 3.0
"""Between two turns: this process was stopped, or its parent did not read; others are excused."""
_LONGEST_PAUSE_S = 30.0
_POLITE = (
    "{} times at niceness {}, behind all others; set RAY_worker_niceness=0 for ray start there"
)

Event = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Life:
    """One actor, from its start to its fall."""

    place: Place
    node: Node
    number: int
    handle: Any
    heard: float = field(default_factory=time.monotonic)
    ready: bool = False
    fallen: bool = False
    process: tuple[int, str] = (0, "")


@dataclass(slots=True, eq=False)
class _Known:
    """A node: what it said about itself, and its workers by slot."""

    node: Node
    report: NodeReport | None = None
    asked: float = 0.0
    lives: dict[str, _Life] = field(default_factory=dict)
    falls: dict[str, int] = field(default_factory=dict)
    """Of lives in a row that did not get ready."""
    due: dict[str, float] = field(default_factory=dict)
    """When a fallen worker's place is filled again."""


class Driver:
    """Everything happens in the thread that calls `run`; others put events into a queue."""

    def __init__(self, order: dict[str, Any], answers: BinaryIO) -> None:
        self._order, self._answers = order, answers
        self._stall_s = float(order["stall_s"])
        self._wait_s = min(5.0, self._stall_s / 3)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._known: dict[str, _Known] = {}
        self._slots: dict[str, _Life] = {}
        self._lives = 0
        self._telling = threading.Lock()
        self._heard_head = time.monotonic()
        self._told_hosts: list[dict[str, Any]] = []

    def run(self, requests: BinaryIO) -> None:
        """Join the cluster and serve until the parent closes the pipe."""
        self._tell("joined", cluster=connect(self._order["address"]))
        self._actor = actor_class()
        self._heard_head = time.monotonic()
        for target in (lambda: self._read(requests), self._watch, self._guard):
            threading.Thread(target=target, daemon=True).start()
        looked = time.monotonic()
        while True:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=LOOK_EVERY_S)()
            self._excuse(time.monotonic() - looked)
            self._tend()
            looked = time.monotonic()

    def _excuse(self, pause_s: float) -> None:
        if pause_s > _LONG_PAUSE_S:
            for life in self._slots.values():
                life.heard += pause_s

    def _tell(self, kind: str, blobs: Sequence[bytes] = (), **more: Any) -> None:
        with self._telling:
            wire.send(self._answers, {"kind": kind, **more}, blobs)

    # Other threads

    def _read(self, requests: BinaryIO) -> None:
        while (message := wire.receive(requests.read)) is not None:
            self._events.put(lambda message=message: self._obey(message))  # type: ignore[misc]
        os._exit(0)  # nobody listens any more; actors end with their driver

    def _watch(self) -> None:
        while True:
            found = nodes()
            self._heard_head = time.monotonic()
            self._events.put(lambda found=found: self._note_nodes(found))  # type: ignore[misc]
            time.sleep(LOOK_EVERY_S)

    def _guard(self) -> None:
        """Without a head, calls to Ray may wait for a minute, and then end the process."""
        looked = time.monotonic()
        while looked - self._heard_head < HEAD_SILENT_S:
            time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            if now - looked > _LONG_PAUSE_S:
                self._heard_head += now - looked
            looked = now
        silent = f"the head of the Ray cluster was silent for {HEAD_SILENT_S:g} s"
        self._tell("failed", reason=silent, usage=False)
        os._exit(1)

    def _then(self, ref: Any, act: Callable[[bytes], None], fail: Callable[[str], None]) -> None:
        """Have one of these done in our thread once Ray knows the result."""

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

    def _note_nodes(self, found: Sequence[Node]) -> None:
        self._tell("alive")
        alive = {node.id for node in found}
        for node in found:
            self._known.setdefault(node.id, _Known(node, asked=-DESCRIBE_AGAIN_S))
        for gone in [known for known in self._known.values() if known.node.id not in alive]:
            del self._known[gone.node.id]
            left = "the node left the cluster"
            for life in list(gone.lives.values()):
                self._fall(life, left, back=False)
            for name in gone.due:  # fell before, and nobody comes any more
                self._tell("fell", slot=name, reason=left, back=False, guilty=False)
        for known in self._known.values():
            if known.report is None and time.monotonic() - known.asked > DESCRIBE_AGAIN_S:
                self._describe(known)
        self._tell_hosts()

    def _describe(self, known: _Known) -> None:
        known.asked = time.monotonic()
        ref = self._on_node(describe_node, known.node, known.node.name)
        called = known.node.name or known.node.id[:6]
        self._then(
            ref,
            lambda text: self._met(known, NodeReport.of(text)),
            lambda reason: self._tell("note", text=f"node {called} gets no work: {reason}"),
        )

    def _met(self, known: _Known, report: NodeReport) -> None:
        known.report = report
        refused = refusal(report)
        if refused:
            self._tell("note", text=refused)
            return
        self._tell_hosts()
        counts = self._order["builders"], self._order["evaluators"]
        for place in places(known.node, report, *counts):
            self._start(known, place)

    def _tell_hosts(self) -> None:
        met = [known.report for known in self._known.values() if known.report]
        hosts = [asdict(report.host) for report in met if not refusal(report)]
        if hosts != self._told_hosts:
            self._tell("hosts", hosts=hosts)
            self._told_hosts = hosts

    def _on_node(self, work: Any, node: Node, *arguments: Any) -> Any:
        remote = ray_module().remote(num_cpus=0, max_retries=0)(work)
        return remote.options(scheduling_strategy=_pinned(node)).remote(*arguments)

    # Workers

    def _start(self, known: _Known, place: Place) -> None:
        self._lives += 1
        options: dict[str, Any] = {"num_cpus": place.cpus, "num_gpus": place.gpus}
        options["resources"] = dict.fromkeys(place.resources, 1)
        options["scheduling_strategy"] = _pinned(known.node)
        slot = place.slot
        handle = self._actor.options(**options).remote(
            slot.name,
            str(slot.stage),
            self._order["factory"],
            place.cores,
            self._order["environment"],
        )
        life = _Life(place, known.node, self._lives, handle)
        known.lives[slot.name] = self._slots[slot.name] = life
        self._then(
            handle.hello.remote(),
            lambda text: self._up(life, text),
            lambda reason: self._fall(life, reason),
        )

    def _up(self, life: _Life, text: bytes) -> None:
        if life.fallen:
            return
        greeting = read_json(text, "a worker's greeting").mapping()
        life.ready, life.process = True, (greeting["pid"], greeting["born"])
        self._known[life.node.id].falls.pop(life.place.slot.name, None)
        slot = asdict(life.place.slot)
        slot["gpu"] = greeting["gpu"] or slot["gpu"]
        self._tell("up", slot=slot, life=life.number, pid=greeting["pid"])
        if life.place.slot.stage is Stage.EVALUATE and greeting["nice"] > 0:
            self._tell("note", text=_POLITE.format(slot["host"], greeting["nice"]))
        self._ask(life)

    def _ask(self, life: _Life) -> None:
        life.heard = time.monotonic()
        self._then(
            life.handle.answers.remote(self._wait_s),
            lambda parcel: self._pass_on(life, parcel),
            lambda reason: self._fall(life, reason),
        )

    def _pass_on(self, life: _Life, parcel: bytes) -> None:
        if life.fallen:
            return
        if parcel:
            self._tell("answers", [parcel], slot=life.place.slot.name)
        self._ask(life)

    def _fall(self, life: _Life, reason: str, *, back: bool = True, guilty: bool = True) -> None:
        """The worker is gone or must go; another takes its place unless the node is gone too."""
        if life.fallen:
            return
        life.fallen = True
        name = life.place.slot.name
        del self._slots[name]
        ray_module().kill(life.handle, no_restart=True)
        known = self._known.get(life.node.id)
        if known:
            # A stopped process cannot do what Ray asks it to.
            self._on_node(end_process, life.node, *life.process)
            del known.lives[name]
            falls = known.falls[name] = 0 if life.ready else known.falls.get(name, 0) + 1
            known.due[name] = time.monotonic() + min(2.0**falls - 1.0, _LONGEST_PAUSE_S)
            if not life.ready:
                self._tell("note", text=f"{name} did not start: {reason}")
        guilty = guilty and life.ready
        self._tell("fell", slot=name, reason=reason, back=back and bool(known), guilty=guilty)

    def _tend(self) -> None:
        """End the silent, and fill the places of the fallen."""
        now = time.monotonic()
        for life in list(self._slots.values()):
            if life.ready and now - life.heard > self._stall_s:
                self._fall(life, f"gave no sign of life for {self._stall_s:g} s and was ended")
        for known in self._known.values():
            for name in [name for name, due in known.due.items() if due <= now]:
                del known.due[name]
                assert known.report  # it has had workers
                counts = self._order["builders"], self._order["evaluators"]
                for place in places(known.node, known.report, *counts):
                    if place.slot.name == name:
                        self._start(known, place)

    # Orders

    def _obey(self, message: wire.Message) -> None:
        body = message.body
        life = self._slots.get(body["slot"])
        if life is None or life.number != body["life"]:
            return  # it fell meanwhile, which the parent will learn
        if body["kind"] == "submit":
            life.handle.work.remote(body["tickets"], message.blobs[0])
        elif body["kind"] == "skip":
            life.handle.skip.remote(body["tickets"])
        elif body["kind"] == "kill":
            self._fall(life, "cancelled", guilty=False)


def _pinned(node: Node) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node.id, soft=False)


def _leave_the_current_directory() -> None:
    """Ray's workers look for modules in the driver's current directory, before all other places."""
    os.environ.update(environment_for(SAFE_DIRECTORY, os.environ))
    os.chdir(SAFE_DIRECTORY)


def main() -> None:
    """Take the order from the pipe, then drive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["drive"])
    parser.add_argument("parent", type=int)
    requests, answers = settle_in(parser.parse_args().parent)
    order = wire.receive(requests.read)
    if order is None:
        return
    _leave_the_current_directory()
    try:
        Driver(order.body, answers).run(requests)
    except Exception as error:
        said = str(error) if isinstance(error, SkipjackError) else reason_of(error)
        usage = getattr(error, "exit_code", 1) == 2
        wire.send(answers, {"kind": "failed", "reason": said, "usage": usage})
        # Not by the way of Ray's own shutdown, which waits for a head that is not there.
        os._exit(1)


if __name__ == "__main__":
    main()
