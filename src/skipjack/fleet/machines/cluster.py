"""A Ray cluster on the machines of a fleet, started, inspected and ended over ssh.

Each start is recorded first, so that `down` finds it after any failure; both commands continue
where they were interrupted. A machine that does not start is reported, and the others stay up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from skipjack.errors import UsageError
from skipjack.fleet.images import check_image
from skipjack.fleet.machines.cluster_record import CLIENT_PORT, PORT, ClusterFile, ClusterRecord
from skipjack.fleet.machines.node_start import (
    END_ALL_S,
    END_S,
    REACH_S,
    START_ALL_S,
    START_S,
    NodeRequest,
)
from skipjack.fleet.machines.remote import Reply, ask_everywhere
from skipjack.fleet.model import Registration

NODE = "skipjack.fleet.machines.node"
NOT_TRIED = "was not tried: the head is not up"
_SSH_S = 30.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a cluster."""

    head: str = ""
    """The machine of the head; empty: the first by name."""
    port: int = 0
    """Port of the head; 0: Ray's default."""
    client_port: int = 0
    ray_options: tuple[str, ...] = ()
    """Further options for ``ray start``."""
    image: str = ""
    """Run the nodes in containers of this image, one for each GPU."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A machine of a cluster."""

    machine: str
    up: bool
    text: str
    """A short description; if it is not up, the reason."""
    head: bool = False
    warning: str = ""
    """A warning about a node that is up, in one sentence."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster and its machines; the record is None if there is no cluster."""

    record: ClusterRecord | None
    nodes: tuple[NodeState, ...] = ()

    @property
    def down(self) -> list[NodeState]:
        """The machines that are not up."""
        return [node for node in self.nodes if not node.up]


def up(
    file: ClusterFile, machines: Sequence[Registration], options: ClusterOptions
) -> ClusterState:
    """Start a head and nodes; running ones are left as they are."""
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
            # Nodes of the previous head would wait for it forever.
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
    """The record without machines on which no start was ever begun."""
    return record.without(
        reply.machine for reply in replies if not reply.began and reply.machine not in known
    )


def _keep(file: ClusterFile, record: ClusterRecord) -> None:
    """Store the record, or remove it if no nodes are left."""
    if record.nodes:
        file.write(record)
    else:
        file.forget()


def down(
    file: ClusterFile, machines: Sequence[Registration] = (), forget: Sequence[str] = ()
) -> ClusterState:
    """End all nodes, the head last; unreachable ones stay in the record.

    `machines` are all registered machines, whose current registrations are used. Nodes to `forget`
    are removed from the record even if they cannot be ended.
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
        # In this result, `up` means that the node has ended as intended.
        return ClusterState(record, tuple(_ended(reply, record, forget) for reply in replies))


def _check_forgotten(record: ClusterRecord, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in record.nodes]
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)} cannot be forgotten; the nodes of the cluster are "
            f"{', '.join(record.nodes)}"
        )


def status(file: ClusterFile, machines: Sequence[Registration]) -> ClusterState:
    """The state of all nodes, and of enabled `machines` that are not nodes yet."""
    record = file.read()
    if record is None:
        return ClusterState(None)
    record = record.as_registered(machines)
    replies = _ask(record, list(record.nodes.values()), "status", timeout_s=_SSH_S)
    states = [_seen(reply, record) for reply in replies]
    missing = [one.name for one in machines if one.enabled and one.name not in record.nodes]
    states += [
        NodeState(name, False, "was not started; run skipjack fleet up again") for name in missing
    ]
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
            "skipjack fleet down and choose another head"
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
            f"a cluster is already running, with head {before.head}, ports {before.port} and "
            f"{before.client_port}{' and image ' + before.image if before.image else ''}; end it "
            "first with skipjack fleet down"
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
    """Time within which a node has started, or has been ended again.

    It includes the end of a previous node; a shorter timeout could report a false failure.
    """
    start_s = START_ALL_S if image else START_S
    return _SSH_S + REACH_S + start_s + 2 * stop_limit_s(image)


def stop_limit_s(image: str = "") -> float:
    """Time within which a node has ended, or failed to end."""
    return _SSH_S + (END_ALL_S if image else END_S)


def declared(machine: Registration) -> dict[str, int]:
    """The device as a Ray resource, one for each evaluator, which measures only on it."""
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
        text = f"forgotten, though it may still run: {reply.failure}"
        return NodeState(reply.machine, True, text, head)
    text = reply.failure or ("ended" if reply.content["ended"] else "was not running")
    return NodeState(reply.machine, not reply.failure, text, head)


def _seen(reply: Reply, record: ClusterRecord) -> NodeState:
    head = reply.machine == record.head
    if reply.failure:
        return NodeState(reply.machine, False, reply.failure, head)
    if reply.content["up"]:
        return NodeState(reply.machine, True, f"up, {reply.content['what']}", head)
    return NodeState(reply.machine, False, "is not running; run skipjack fleet up again", head)
