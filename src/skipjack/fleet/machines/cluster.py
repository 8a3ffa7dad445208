"""A Ray cluster on the machines of a fleet: started, looked at and ended over ssh.

What was begun is written down first, so that `down` finds it whatever happened; both go on where
they were interrupted. A machine that does not start is named, and the others stay up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from skipjack.errors import UsageError
from skipjack.fleet.images.names import check_image
from skipjack.fleet.machines.cluster_record import (
    CLIENT_PORT,
    PORT,
    ClusterFile,
    ClusterRecord,
)
from skipjack.fleet.machines.marked import END_S
from skipjack.fleet.machines.node_record import NodeRequest
from skipjack.fleet.machines.ray_start import END_ALL_S, REACH_S, START_ALL_S, START_S
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.remote import Reply, ask_everywhere

NODE = "skipjack.fleet.machines.node"
NOT_TRIED = "was not tried: the head is not up"
_SSH_S = 30.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How a cluster is to be."""

    head: str = ""
    """The machine that is; empty: the first by name."""
    port: int = 0
    """Of the head; 0: Ray's own."""
    client_port: int = 0
    ray_options: tuple[str, ...] = ()
    """Further ones for ``ray start``."""
    image: str = ""
    """Run the nodes in containers of it, one for each GPU."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A machine of a cluster."""

    machine: str
    up: bool
    text: str
    """In a few words; if it is not up, why."""
    head: bool = False
    warning: str = ""
    """What is odd about it though it is up, in one sentence."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster and its machines; without a record there is none."""

    record: ClusterRecord | None
    nodes: tuple[NodeState, ...] = ()

    @property
    def down(self) -> list[NodeState]:
        """Those that are not up."""
        return [node for node in self.nodes if not node.up]


def up(
    file: ClusterFile, machines: Sequence[Registration], options: ClusterOptions
) -> ClusterState:
    """Start a head and nodes; those that run already are left as they are."""
    with file.alone():
        before = file.read()
        record = _planned(before, machines, options)
        known = record.nodes
        head, *others = _head_first(record.head, machines)
        record = record.as_registered(machines).with_nodes([head])
        file.write(record)
        (reply,) = _start(file, record, [head], options)
        if reply.failure:
            _keep(file, _without_unbegun(record, [reply], known))
            waiting = [NodeState(one.name, False, NOT_TRIED) for one in others]
            return ClusterState(record, (_started(reply, record), *waiting))
        record = replace(record, ip=str(reply.content["ip"]))
        if not reply.content["already"]:
            # Nodes of a head that is gone would wait for it in vain.
            _stop(record, [one for one in record.nodes.values() if one.name != record.head])
        record = record.with_nodes(others)
        file.write(record)
        replies = [reply, *_start(file, record, others, options)]
        record = _without_unbegun(record, replies, known)
        file.write(record)
        return ClusterState(record, tuple(_started(one, record) for one in replies))


def _without_unbegun(
    record: ClusterRecord, replies: Sequence[Reply], known: Mapping[str, Registration]
) -> ClusterRecord:
    """Where nothing can have been started, now or before, nothing has to be ended."""
    return record.without(
        reply.machine for reply in replies if not reply.began and reply.machine not in known
    )


def _keep(file: ClusterFile, record: ClusterRecord) -> None:
    """Remember what is left of it."""
    if record.nodes:
        file.write(record)
    else:
        file.forget()


def down(
    file: ClusterFile, machines: Sequence[Registration] = (), forget: Sequence[str] = ()
) -> ClusterState:
    """End all nodes that were started, the head last; those that cannot be reached are kept.

    `machines` are all that are registered: a node is reached as its registration says now. Those to
    `forget` are given up if they cannot be ended.
    """
    with file.alone():
        record = file.read()
        if record is None:
            return ClusterState(None)
        record = record.as_registered(machines)
        _check_forgotten(record, forget)
        nodes = list(record.nodes.values())
        replies = _stop(record, [one for one in nodes if one.name != record.head])
        replies += _stop(record, [one for one in nodes if one.name == record.head])
        ended = [reply.machine for reply in replies if not reply.failure]
        _keep(file, record.without([*ended, *forget]))
        # Here `up` says that the machine is as it should be: ended.
        return ClusterState(record, tuple(_ended(reply, record, forget) for reply in replies))


def _check_forgotten(record: ClusterRecord, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in record.nodes]
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)} cannot be forgotten: the cluster has {', '.join(record.nodes)}"
        )


def status(file: ClusterFile, machines: Sequence[Registration]) -> ClusterState:
    """Look at all nodes that were started; of `machines` the enabled should be among them."""
    record = file.read()
    if record is None:
        return ClusterState(None)
    record = record.as_registered(machines)
    replies = _ask(record, list(record.nodes.values()), "status", timeout_s=_SSH_S)
    states = [_seen(reply, record) for reply in replies]
    missing = [one.name for one in machines if one.enabled and one.name not in record.nodes]
    states += [NodeState(name, False, "was not started: run fleet up again") for name in missing]
    return ClusterState(record, tuple(states))


def _planned(
    before: ClusterRecord | None, machines: Sequence[Registration], options: ClusterOptions
) -> ClusterRecord:
    if options.image:
        check_image(options.image)
    names = [one.name for one in machines]
    head = options.head or (before.head if before else names[0])
    if head not in names:
        raise UsageError(
            f"the head {head} is not among the machines {', '.join(names)}; enable it, or run "
            "skipjack fleet down and choose another"
        )
    if before is None:
        return ClusterRecord(
            head,
            port=options.port or PORT,
            client_port=options.client_port or CLIENT_PORT,
            image=options.image,
        )
    ports = (options.port or before.port, options.client_port or before.client_port)
    image = options.image or before.image
    if (head, *ports, image) != (before.head, before.port, before.client_port, before.image):
        raise UsageError(
            f"there is a cluster already, with head {before.head}, ports {before.port} and "
            f"{before.client_port}{' and image ' + before.image if before.image else ''}; skipjack "
            "fleet down ends it first"
        )
    return before


def _head_first(head: str, machines: Sequence[Registration]) -> list[Registration]:
    return sorted(machines, key=lambda one: one.name != head)


def _start(
    file: ClusterFile,
    record: ClusterRecord,
    machines: Sequence[Registration],
    options: ClusterOptions,
) -> list[Reply]:
    token = file.token()

    def own(machine: Registration) -> Mapping[str, Any]:
        request = NodeRequest(
            machine.name,
            record.id,
            token,
            "" if machine.name == record.head else record.address,
            record.port,
            record.client_port,
            declared(machine),
            machine.gpus,
            options.ray_options,
            record.image,
        )
        return asdict(request)

    return ask_everywhere(
        machines, NODE, {"do": "start"}, own=own, timeout_s=start_limit_s(record.image)
    )


def start_limit_s(image: str = "") -> float:
    """Until when a node has started, or what was begun of it has ended; and what was there before.

    Who hears earlier that it failed would be told a lie.
    """
    start_s = START_ALL_S if image else START_S
    return _SSH_S + REACH_S + start_s + 2 * stop_limit_s(image)


def stop_limit_s(image: str = "") -> float:
    """Until when a node has ended, or is known not to."""
    return _SSH_S + (END_ALL_S if image else END_S)


def declared(machine: Registration) -> dict[str, int]:
    """The device as a resource, one for each evaluator: it measures on nothing else."""
    return {machine.device: max(1, machine.gpus)} if machine.device else {}


def _stop(record: ClusterRecord, machines: Sequence[Registration]) -> list[Reply]:
    return _ask(record, machines, "stop", timeout_s=stop_limit_s(record.image))


def _ask(
    record: ClusterRecord, machines: Sequence[Registration], do: str, *, timeout_s: float
) -> list[Reply]:
    request = {"do": do, "cluster": record.id}
    return ask_everywhere(
        machines, NODE, request, own=lambda one: {"machine": one.name}, timeout_s=timeout_s
    )


def _started(reply: Reply, record: ClusterRecord) -> NodeState:
    head = reply.machine == record.head
    if reply.failure:
        return NodeState(reply.machine, False, reply.failure, head)
    verb = "was up" if reply.content["already"] else "is up"
    text = f"{verb}, {reply.content['what']}"
    return NodeState(reply.machine, True, text, head, str(reply.content.get("warning", "")))


def _ended(reply: Reply, record: ClusterRecord, forget: Sequence[str]) -> NodeState:
    head = reply.machine == record.head
    if reply.failure and reply.machine in forget:
        text = f"forgotten, whatever runs there: {reply.failure}"
        return NodeState(reply.machine, True, text, head)
    text = reply.failure or ("ended" if reply.content["ended"] else "was not running")
    return NodeState(reply.machine, not reply.failure, text, head)


def _seen(reply: Reply, record: ClusterRecord) -> NodeState:
    head = reply.machine == record.head
    if reply.failure:
        return NodeState(reply.machine, False, reply.failure, head)
    if reply.content["up"]:
        return NodeState(reply.machine, True, f"up, {reply.content['what']}", head)
    return NodeState(reply.machine, False, "is not running: run fleet up again", head)
