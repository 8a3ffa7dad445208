"""A Ray cluster from outside: how to reach it, what its nodes are, which workers each gets."""

from __future__ import annotations

import importlib
import importlib.util
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import skipjack
from skipjack.core.device import Device, parse_device_name
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.engine import Host, Slot
from skipjack.fleet.states import Stage
from skipjack.reading import read_json

REACH_S = 3.0
"""A head that takes no connection within this time is not there."""
CLIENT = "ray://"
CLIENT_PORT = 10001


class RayUnreachableError(SkipjackError):
    """No Ray cluster where one was expected."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Ray knows it."""

    id: str
    name: str
    """As given to ``ray start --node-name``; empty if it was not."""
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node as it described itself."""

    host: Host
    version: str
    usable: tuple[int, ...]
    """Cores that a process there may use."""

    @classmethod
    def of(cls, text: bytes) -> NodeReport:
        """What `describe_node` gave."""
        said = read_json(text, "a node's report")
        host = Host(
            said["name"].text(),
            said["cores"].integer(0),
            said["memory_bytes"].integer(0),
            tuple(device.of(Device) for device in said["devices"].elements()),
        )
        usable = tuple(core.integer(0) for core in said["usable"].elements())
        return cls(host, said["version"].text(), usable)


@dataclass(frozen=True, slots=True)
class Place:
    """One worker that a node is to have, and what it reserves there."""

    slot: Slot
    cores: tuple[int, ...] = ()
    cpus: int = 0
    gpus: int = 0
    resources: tuple[str, ...] = ()


def require_ray() -> None:
    """Say how to get Ray if it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("the ray engine needs Ray: pip install 'skipjack[ray]'")


def ray_module() -> Any:
    """Ray, which is slow to import and need not be installed."""
    return importlib.import_module("ray")


def connect(address: str | None) -> str:
    """Join the cluster, or start one here for None; gives what to call it."""
    check_reachable(address)
    try:
        context = ray_module().init(
            address=address or "local", log_to_driver=False, configure_logging=False
        )
    except Exception as error:
        raise RayUnreachableError(
            f"cannot join the Ray cluster at {address or 'this machine'}: "
            f"{_sentence(error).rstrip('.')}; check that RAY_AUTH_MODE, "
            "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH are those of the cluster, "
            f"and that it runs Ray {ray_module().__version__} too"
        ) from error
    if address is None:
        return f"a Ray of its own at {context.address_info['gcs_address']}"
    return address


def check_reachable(address: str | None) -> None:
    """Complain at once; Ray itself tries for half a minute and more."""
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix(CLIENT).split("/")[0].rpartition(":")
    if not host and address.startswith(CLIENT):
        host, port = port, str(CLIENT_PORT)
    if not host or not port.isdigit():
        raise UsageError(
            f"{address!r} is no address of a Ray cluster; write ray://head:10001, head:6379 or auto"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise RayUnreachableError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; is its head running, "
            "and is this the right port (10001 for ray://, else 6379)?"
        ) from None


def reason_of(error: BaseException) -> str:
    """What Ray says about a failure, in a sentence."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {cause}"
    text = str(error)
    _, found, detail = text.partition("Worker exit detail: ")
    if found:
        return detail.split(". ")[0].splitlines()[0]
    return _sentence(error)


def _sentence(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # A traceback ends with what matters, a message begins with it.
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]


def nodes() -> list[Node]:
    """Those that are alive."""
    return [_node(record) for record in ray_module().nodes() if record["Alive"]]


def _node(record: Mapping[str, Any]) -> Node:
    name = str(record.get("NodeName") or "")
    unnamed = name in (record["NodeManagerAddress"], record["NodeManagerHostname"])
    return Node(str(record["NodeID"]), "" if unnamed else name, record["Resources"])


def refusal(report: NodeReport) -> str:
    """Why a node gets no workers; empty if it may have some."""
    if report.version == skipjack.__version__:
        return ""
    return (
        f"{report.host.name} gets no work: it has Skipjack {report.version}, this is "
        f"{skipjack.__version__}; install the same there"
    )


def places(
    node: Node, report: NodeReport, builders: int | None, evaluators: int | None
) -> list[Place]:
    """The workers of a node: one evaluator for each GPU, or on its CPU, and builders beside them.

    A node that declares device classes as resources (``{"znver4/1": 2}``) measures on these alone,
    with so many evaluators. What is reserved never exceeds what Ray says that the node has, so
    that a worker which was asked for is not left waiting.
    """
    host = report.host
    at = f"{host.name}/{node.id[:6]}"
    evaluating = _evaluators(node, report, evaluators)
    free = int(node.resources.get("CPU", 0)) - sum(place.cpus for place in evaluating)
    count = max(1, free) if builders is None else builders
    building = [
        Place(Slot(f"{at}/build-{number + 1}", Stage.BUILD, host.name), cpus=int(number < free))
        for number in range(count)
    ]
    named = [
        replace(place, slot=replace(place.slot, name=f"{at}/evaluate-{number + 1}"))
        for number, place in enumerate(evaluating)
    ]
    return building + named


def _evaluators(node: Node, report: NodeReport, count: int | None) -> list[Place]:
    declared = _declared(node)
    devices = [one for one in report.host.devices if not declared or one.name in declared]
    gpus = [one for one in devices if one.kind != "cpu"]
    if gpus:
        most = min(int(node.resources.get("GPU", 0)), len(gpus))
        return [
            _on_gpu(report.host, gpus, declared) for _ in range(most if count is None else count)
        ][:most]
    if not devices:
        return []
    wanted = max(declared.values(), default=1) if count is None else count
    return _on_cores(node, report, devices, min(wanted, len(report.usable)), declared)


def _on_gpu(host: Host, gpus: Sequence[Device], declared: Mapping[str, int]) -> Place:
    names = tuple(dict.fromkeys(one.name for one in gpus))
    held = names if len(names) == 1 and names[0] in declared else ()
    kinds = tuple({one.class_key: one for one in gpus}.values())
    return Place(Slot("", Stage.EVALUATE, host.name, kinds), gpus=1, resources=held)


def _on_cores(
    node: Node, report: NodeReport, devices: Sequence[Device], count: int, declared: dict[str, int]
) -> list[Place]:
    """Disjoint sets of cores of the same size: two that are timed do not disturb each other."""
    size = len(report.usable) // count if count else 0
    cpus = int(node.resources.get("CPU", 0))
    made = []
    for number in range(count):
        mine = report.usable[number * size : (number + 1) * size]
        fitting = tuple(one for one in devices if one.units <= size)
        held = tuple(one.name for one in fitting if declared.get(one.name, 0) > number)
        slot = Slot("", Stage.EVALUATE, report.host.name, fitting, f"cpu{mine[0]}")
        made.append(Place(slot, mine, cpus=int(number < cpus), resources=held))
    return made


def _declared(node: Node) -> dict[str, int]:
    """Device classes among a node's resources."""
    found = {}
    for name, amount in node.resources.items():
        try:
            parse_device_name(name)
        except UsageError:
            continue
        found[name] = int(amount)
    return found
