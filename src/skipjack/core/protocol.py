"""How something is timed. Two measurements are comparable only under one protocol.

What a program gets out of a kernel depends on how the program calls it. That much of a protocol has
a short name, the deployment: how calls are made, and whether caches hold the arrays.

- ``native/hot``, ``native/cold``: called from machine code, without the cost of Python; on CPUs.
- ``graph/cold``, ``graph/hot``: launched by the GPU from a graph, without the cost of the host.
- ``eager/hot``, ``eager/cold``: called one by one from Python, the cost of the host included.

Results of one deployment are no answer to a question about another.
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
    """Everything about a timing that is not the kernel or the device."""

    alignment_bytes: int = 64
    caches: Caches = "hot"
    """Hot: arrays are used again and again, nothing is flushed in between. Rotating: calls go
    through so many sets of arrays that the last caches hold nothing of a set when it is used.
    Flushed: before each call the lines of its arrays are put out of the caches; code, addresses of
    pages and workspace stay."""
    threads: int = 1
    pinned: bool = True
    places: str = "page starts; 64 bytes apart"
    """Where arrays lie in their pages: half of the samples are taken at each."""
    inputs: str = "uniform(-1,1)"
    timer: str = NATIVE_TIMER
    sample_ns: int = 60_000
    """Calls are repeated until one sample takes at least this long."""
    samples_per_block: int = 4
    race_blocks: int = 3
    """Blocks that a candidate gets in a race before the hopeless are dropped for good."""
    confirm_blocks: int = 40
    """Most pairs of blocks that a confirmation may take."""
    call_timeout_s: float = 10.0
    """A single call that takes longer is a hang."""

    @property
    def key(self) -> str:
        """Canonical text."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def deployed(self) -> str:
        """The deployment that it measures, as ``native/hot``."""
        return f"{_CALLS.get(self.timer, _UNKNOWN)}/{_CACHES[self.caches]}"

    @property
    def cold(self) -> bool:
        """Whether caches hold nothing of the arrays when a kernel is called."""
        return self.caches != "hot"

    @property
    def eager(self) -> bool:
        """Whether kernels are timed as Python calls them."""
        return self.timer in (CALLING_TIMER, LAUNCHING_TIMER)


def cpu_protocol(threads: int = 1) -> TimingProtocol:
    """How kernels are timed on CPUs by default."""
    return TimingProtocol(threads=threads)


def gpu_protocol() -> TimingProtocol:
    """How kernels are timed on GPUs by default.

    A sample is long enough that the clock of events, half a microsecond, does not count.
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
    """How launches of this process are timed; `benchmark` identifies a function of the user's.

    Such a function takes many samples by itself and a tenth of a second, so it is called seldom.
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
    """How kernels are timed on a device by default."""
    return cpu_protocol(device.units) if device.kind == "cpu" else gpu_protocol()


def deployed_protocol(
    device: Device, calls: str | None = None, caches: str | None = None
) -> TimingProtocol:
    """A device's default protocol, changed to measure this deployment; `UsageError`.

    `calls` is native, graph or eager, `caches` hot or cold; None is the device's default.
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
    """A deployment that can be measured on a device, by its name; `UsageError`."""
    if not _DEPLOYMENT.fullmatch(name):
        raise UsageError(f"{name!r} is no deployment: give one as {EAGER}/{HOT}")
    return deployed_protocol(device, *name.split("/")).deployed


def protocol_record(text: str) -> dict[str, Any] | None:
    """The fields of a protocol's text, for machines; None where the text does not have them."""
    try:
        told = parse_json(text)
    except MalformedError:
        return None
    return told if isinstance(told, dict) else None


def default_deployment(device_class: str) -> str:
    """What is timed by default on a class of devices, and what earlier versions timed."""
    return f"{NATIVE}/{HOT}" if device_class.startswith("cpu:") else f"{GRAPH}/{COLD}"


@lru_cache(maxsize=256)
def deployment_of(protocol: str, device_class: str) -> str:
    """The deployment that a protocol's text measures; the default where the text does not say.

    The text is a `TimingProtocol.key`, a deployment, or empty, as in entries of earlier versions.
    """
    if _DEPLOYMENT.fullmatch(protocol):
        return protocol
    try:
        told = parse_json(protocol)
        timer, caches = told["timer"], told["caches"]
    except (MalformedError, TypeError, KeyError):
        return default_deployment(device_class)
    if not isinstance(timer, str) or not isinstance(caches, str):
        return default_deployment(device_class)
    return f"{_CALLS.get(timer, _UNKNOWN)}/{_CACHES.get(caches, COLD)}"
