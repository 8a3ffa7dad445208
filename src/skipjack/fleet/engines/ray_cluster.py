"""A Ray cluster: connecting to it, its nodes, and the workers that each node gets."""

from __future__ import annotations

import importlib
import importlib.util
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import skipjack
from skipjack.core import Device, parse_device_name
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.model import Host, JobStage, Slot
from skipjack.reading import read_json

REACH_S = 3.0
"""Time within which a head must accept a connection."""
CLIENT = "ray://"
CLIENT_PORT = 10001


class RayUnreachableError(SkipjackError):
    """No Ray cluster answers at the given address."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node as Ray describes it."""

    id: str
    name: str
    """The name given to ``ray start --node-name``; empty without one."""
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node as `describe_node` describes it."""

    host: Host
    version: str
    usable: tuple[int, ...]
    """Cores that a process on the node may use."""

    @classmethod
    def of(cls, text: bytes) -> NodeReport:
        """Read the result of `describe_node`."""
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
class WorkerPlacement:
    """A worker for a node, and the resources that it reserves there."""

    slot: Slot
    cores: tuple[int, ...] = ()
    cpus: int = 0
    gpus: int = 0
    resources: tuple[str, ...] = ()


def require_ray() -> None:
    """`UsageError` with instructions if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("the ray engine needs Ray: pip install 'skipjack[ray]'")


def ray_module() -> Any:
    """Import Ray, which is slow to import and optional."""
    return importlib.import_module("ray")


def connect(address: str | None) -> str:
    """Join the cluster, or start one here for None; returns its name for messages."""
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
    """Fail at once if no head answers; Ray itself tries for half a minute or more."""
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix(CLIENT).split("/")[0].rpartition(":")
    if not host and address.startswith(CLIENT):
        host, port = port, str(CLIENT_PORT)
    if not host or not port.isdigit():
        raise UsageError(
            f"{address!r} is not the address of a Ray cluster; "
            "write ray://head:10001, head:6379 or auto"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise RayUnreachableError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; check that its head "
            "is running and that the port is right (10001 for ray://, otherwise 6379)"
        ) from None


def reason_of(error: BaseException) -> str:
    """The reason of a failure in Ray, as one sentence."""
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
    # The last line of a traceback matters, and the first line of a message.
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]


def nodes() -> list[RayNode]:
    """The nodes that are alive."""
    return [_node(record) for record in ray_module().nodes() if record["Alive"]]


def _node(record: Mapping[str, Any]) -> RayNode:
    name = str(record.get("NodeName") or "")
    unnamed = name in (record["NodeManagerAddress"], record["NodeManagerHostname"])
    return RayNode(str(record["NodeID"]), "" if unnamed else name, record["Resources"])


def refusal(report: NodeReport) -> str:
    """Why a node gets no workers; empty if it may have some."""
    if report.version == skipjack.__version__:
        return ""
    return (
        f"{report.host.name} gets no work: it has Skipjack {report.version}, this machine has "
        f"{skipjack.__version__}; install the same version there"
    )


def worker_placements(
    node: RayNode, report: NodeReport, builders: int | None, evaluators: int | None
) -> list[WorkerPlacement]:
    """The workers of a node: builders, and one evaluator for each GPU or else on its CPU.

    A node that declares devices as resources (``{"znver4/1": 2}``) measures on these only, with
    that many evaluators. Reservations never exceed what Ray says that the node has, so that no
    worker waits for resources.
    """
    host = report.host
    at = f"{host.name}/{node.id[:6]}"
    evaluating = _evaluators(node, report, evaluators)
    free = int(node.resources.get("CPU", 0)) - sum(placement.cpus for placement in evaluating)
    count = max(1, free) if builders is None else builders
    building = [
        WorkerPlacement(
            Slot(f"{at}/build-{number + 1}", JobStage.BUILD, host.name), cpus=int(number < free)
        )
        for number in range(count)
    ]
    named = [
        replace(placement, slot=replace(placement.slot, name=f"{at}/evaluate-{number + 1}"))
        for number, placement in enumerate(evaluating)
    ]
    return building + named


def _evaluators(node: RayNode, report: NodeReport, count: int | None) -> list[WorkerPlacement]:
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


def _on_gpu(host: Host, gpus: Sequence[Device], declared: Mapping[str, int]) -> WorkerPlacement:
    names = tuple(dict.fromkeys(one.name for one in gpus))
    held = names if len(names) == 1 and names[0] in declared else ()
    kinds = tuple({one.class_key: one for one in gpus}.values())
    return WorkerPlacement(Slot("", JobStage.EVALUATE, host.name, kinds), gpus=1, resources=held)


def _on_cores(
    node: RayNode,
    report: NodeReport,
    devices: Sequence[Device],
    count: int,
    declared: dict[str, int],
) -> list[WorkerPlacement]:
    """Evaluators on disjoint sets of cores of the same size, which do not disturb each other."""
    size = len(report.usable) // count if count else 0
    cpus = int(node.resources.get("CPU", 0))
    made = []
    for number in range(count):
        mine = report.usable[number * size : (number + 1) * size]
        fitting = tuple(one for one in devices if one.units <= size)
        held = tuple(one.name for one in fitting if declared.get(one.name, 0) > number)
        slot = Slot("", JobStage.EVALUATE, report.host.name, fitting, f"cpu{mine[0]}")
        made.append(WorkerPlacement(slot, mine, cpus=int(number < cpus), resources=held))
    return made


def _declared(node: RayNode) -> dict[str, int]:
    """Names of devices among a node's resources."""
    found = {}
    for name, amount in node.resources.items():
        try:
            parse_device_name(name)
        except UsageError:
            continue
        found[name] = int(amount)
    return found
