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
from skipjack.fleet.machines.node_record import NodeRequest
from skipjack.fleet.machines.ray_start import START_S
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.remote import Reply, ask_everywhere

NODE = "skipjack.fleet.machines.node"
_SSH_S = 30.0
STOP_S = 60.0


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
        record = _planned(before, machines, options).with_nodes(machines)
        file.write(record)
        head, *others = _head_first(record.head, machines)
        (reply,) = _start(file, record, [head], options)
        if reply.failure:
            return ClusterState(record, (_started(reply, record),))
        record = replace(record, ip=str(reply.content["ip"]))
        file.write(record)
        if not reply.content["already"]:
            # Nodes of a head that is gone would wait for it in vain.
            _stop(record, [one for one in record.nodes.values() if one.name != record.head])
        replies = [reply, *_start(file, record, others, options)]
        return ClusterState(record, tuple(_started(one, record) for one in replies))


def down(file: ClusterFile) -> ClusterState:
    """End all nodes that were started, the head last; those that cannot be reached are kept."""
    with file.alone():
        record = file.read()
        if record is None:
            return ClusterState(None)
        nodes = list(record.nodes.values())
        replies = _stop(record, [one for one in nodes if one.name != record.head])
        replies += _stop(record, [one for one in nodes if one.name == record.head])
        left = record.without(reply.machine for reply in replies if not reply.failure)
        if left.nodes:
            file.write(left)
        else:
            file.forget()
        # Here `up` says that the machine is as it should be: ended.
        return ClusterState(record, tuple(_ended(reply, record) for reply in replies))


def status(file: ClusterFile, machines: Sequence[Registration]) -> ClusterState:
    """Look at all nodes that were started; `machines` are those that should be among them."""
    record = file.read()
    if record is None:
        return ClusterState(None)
    replies = _ask(record, list(record.nodes.values()), "status", timeout_s=_SSH_S)
    states = [_seen(reply, record) for reply in replies]
    missing = [one.name for one in machines if one.name not in record.nodes]
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

    return ask_everywhere(machines, NODE, {"do": "start"}, own=own, timeout_s=START_S + _SSH_S)


def declared(machine: Registration) -> dict[str, int]:
    """The device as a resource, one for each evaluator: it measures on nothing else."""
    return {machine.device: max(1, machine.gpus)} if machine.device else {}


def _stop(record: ClusterRecord, machines: Sequence[Registration]) -> list[Reply]:
    return _ask(record, machines, "stop", timeout_s=STOP_S)


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
    return NodeState(reply.machine, True, f"{verb}, {reply.content['what']}", head)


def _ended(reply: Reply, record: ClusterRecord) -> NodeState:
    text = reply.failure or ("ended" if reply.content["ended"] else "was not running")
    return NodeState(reply.machine, not reply.failure, text, reply.machine == record.head)


def _seen(reply: Reply, record: ClusterRecord) -> NodeState:
    head = reply.machine == record.head
    if reply.failure:
        return NodeState(reply.machine, False, reply.failure, head)
    if reply.content["up"]:
        return NodeState(reply.machine, True, f"up, {reply.content['what']}", head)
    return NodeState(reply.machine, False, "is not running: run fleet up again", head)
