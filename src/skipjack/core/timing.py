"""Timing protocols: how a kernel is timed. Only measurements under one protocol are comparable.

The speed that a program sees depends on how it calls the kernel. This part of a protocol has a
short name, the deployment: how calls are made, and whether caches hold the arrays.

- ``native/hot``, ``native/cold``: called from machine code, without overhead of Python; on CPUs.
- ``graph/cold``, ``graph/hot``: launched by the GPU from a graph, without overhead of the host.
- ``eager/hot``, ``eager/cold``: called one by one from Python, including overhead of the host.

Results of one deployment do not apply to another.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from skipjack.core.device import Device
from skipjack.errors import MalformedError, UsageError
from skipjack.reading import parse_json

Caches = Literal["hot", "rotating", "flushed"]

NATIVE, GRAPH, EAGER = "native", "graph", "eager"
HOT, COLD = "hot", "cold"
NATIVE_TIMER = "clock_monotonic_in_native_loop"
GRAPH_TIMER = "events around a graph"
CALLING_TIMER = "clock around calls from Python"
LAUNCHING_TIMER = "clock of the host around launches and their end"
LAUNCH_TIMER = "events around each launch of the caller's process"
DEPLOYMENTS = tuple(f"{calls}/{c}" for calls in (NATIVE, GRAPH, EAGER) for c in (HOT, COLD))
_CALLS = {
    NATIVE_TIMER: NATIVE,
    GRAPH_TIMER: GRAPH,
    LAUNCH_TIMER: GRAPH,
    CALLING_TIMER: EAGER,
    LAUNCHING_TIMER: EAGER,
}
_CACHES = {"hot": HOT, "rotating": COLD, "flushed": COLD}
_UNKNOWN = "unknown"
_DEPLOYMENT = re.compile(r"[a-z_]+/(hot|cold)")


@dataclass(frozen=True, slots=True)
class TimingProtocol:
    """Everything that defines a timing except the kernel and the device."""

    alignment_bytes: int = 64
    caches: Caches = "hot"
    """Hot: all calls use the same arrays, and nothing is flushed in between. Rotating: calls cycle
    through so many sets of arrays that the last-level cache does not hold a set when it is used
    again. Flushed: before each call the lines of its arrays are evicted from the caches; code,
    translations of addresses and workspace stay cached."""
    threads: int = 1
    pinned: bool = True
    places: str = "page starts; 64 bytes apart"
    """Positions of arrays in their pages; half of the samples are taken at each."""
    inputs: str = "uniform(-1,1)"
    timer: str = NATIVE_TIMER
    sample_ns: int = 60_000
    """Minimum duration of a sample; calls are repeated until it is reached."""
    samples_per_block: int = 4
    race_blocks: int = 3
    """Blocks of each candidate in a race before the clearly slower ones are dropped."""
    confirm_blocks: int = 40
    """Maximum number of pairs of blocks in a confirmation."""
    call_timeout_s: float = 10.0
    """A call that takes longer counts as a hang."""

    @property
    def key(self) -> str:
        """The canonical text, as JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def deployed(self) -> str:
        """The deployment that it measures, such as ``native/hot``."""
        return f"{_CALLS.get(self.timer, _UNKNOWN)}/{_CACHES[self.caches]}"

    @property
    def cold(self) -> bool:
        """Whether caches are cold: they do not hold the arrays when a kernel is called."""
        return self.caches != "hot"

    @property
    def eager(self) -> bool:
        """Whether kernels are timed as called from Python."""
        return self.timer in (CALLING_TIMER, LAUNCHING_TIMER)


def cpu_protocol(threads: int = 1) -> TimingProtocol:
    """The default protocol for CPUs."""
    return TimingProtocol(threads=threads)


def gpu_protocol() -> TimingProtocol:
    """The default protocol for GPUs.

    A sample is so long that the resolution of events, half a microsecond, is negligible.
    """
    return TimingProtocol(
        alignment_bytes=256,
        caches="rotating",
        pinned=False,
        places="256-byte starts, in sets of arrays that together exceed three times the L2",
        timer=GRAPH_TIMER,
        sample_ns=1_000_000,
    )


def call_protocol(benchmark: str = "") -> TimingProtocol:
    """The protocol for launches of this process; `benchmark` identifies a function of the user.

    Such a function takes many samples itself, for a tenth of a second, so that few calls suffice.
    """
    own = TimingProtocol(
        alignment_bytes=1,
        caches="flushed",
        pinned=False,
        places="tensors of the caller",
        inputs="tensors of the caller",
        timer=LAUNCH_TIMER,
        sample_ns=0,
        samples_per_block=2,
    )
    if not benchmark:
        return own
    timer = f"do_bench {benchmark}"
    return replace(own, timer=timer, samples_per_block=1, race_blocks=1, confirm_blocks=5)


def protocol_for(device: Device) -> TimingProtocol:
    """The default protocol for a device."""
    return cpu_protocol(device.units) if device.kind == "cpu" else gpu_protocol()


def deployed_protocol(
    device: Device, calls: str | None = None, caches: str | None = None
) -> TimingProtocol:
    """The default protocol of a device, changed to measure this deployment.

    `calls` is native, graph or eager, `caches` hot or cold; None is the default of the device.
    `UsageError` if the device does not support the deployment.
    """
    default, kind = protocol_for(device), "CPU" if device.kind == "cpu" else "GPU"
    own, timer = (NATIVE, CALLING_TIMER) if kind == "CPU" else (GRAPH, LAUNCHING_TIMER)
    if calls not in (None, own, EAGER):
        raise UsageError(
            f"kernels on a {kind} are deployed as {own} or {EAGER}, not as {str(calls)!r}"
        )
    if caches not in (None, HOT, COLD):
        raise UsageError(f"caches are {HOT} or {COLD}, not {str(caches)!r}")
    found = replace(default, timer=timer) if calls == EAGER else default
    if caches in (None, _CACHES[default.caches]):
        return found
    if caches == COLD:
        return replace(found, caches="flushed")
    places = default.places.partition(",")[0]
    return replace(found, caches="hot", places=f"{places}, in one set of arrays")


def named_deployment(device: Device, name: str) -> str:
    """The normalised name of a deployment; `UsageError` if the device does not support it."""
    if not _DEPLOYMENT.fullmatch(name):
        raise UsageError(f"{name!r} is not a deployment; write one like {EAGER}/{HOT}")
    return deployed_protocol(device, *name.split("/")).deployed


def protocol_record(text: str) -> dict[str, Any] | None:
    """The fields of a protocol's text; None if the text is not JSON with fields."""
    try:
        record = parse_json(text)
    except MalformedError:
        return None
    return record if isinstance(record, dict) else None


def default_deployment(device_class: str) -> str:
    """The default deployment on a class of devices, which is also that of earlier versions."""
    return f"{NATIVE}/{HOT}" if device_class.startswith("cpu:") else f"{GRAPH}/{COLD}"


@lru_cache(maxsize=256)
def deployment_of(protocol: str, device_class: str) -> str:
    """The deployment that a protocol's text measures; the default if it does not say.

    The text is a `TimingProtocol.key`, a deployment, or, in entries of earlier versions, empty.
    """
    if _DEPLOYMENT.fullmatch(protocol):
        return protocol
    try:
        record = parse_json(protocol)
        timer, caches = record["timer"], record["caches"]
    except (MalformedError, TypeError, KeyError):
        return default_deployment(device_class)
    if not isinstance(timer, str) or not isinstance(caches, str):
        return default_deployment(device_class)
    return f"{_CALLS.get(timer, _UNKNOWN)}/{_CACHES.get(caches, COLD)}"
