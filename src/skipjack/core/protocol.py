"""How something is timed. Two measurements are comparable only under one protocol."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TimingProtocol:
    """Everything about a timing that is not the kernel or the device."""

    alignment_bytes: int = 64
    caches: Literal["hot", "rotating"] = "hot"
    """Hot: arrays are used again and again, nothing is flushed in between. Rotating: calls go
    through so many sets of arrays that the last caches hold nothing of a set when it is used."""
    threads: int = 1
    pinned: bool = True
    places: str = "page starts; 64 bytes apart"
    """Where arrays lie in their pages: half of the samples are taken at each."""
    inputs: str = "uniform(-1,1)"
    timer: str = "clock_monotonic_in_native_loop"
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


def gpu_protocol() -> TimingProtocol:
    """How kernels are timed on GPUs.

    A sample is long enough that the clock of events, half a microsecond, does not count.
    """
    return TimingProtocol(
        alignment_bytes=256,
        caches="rotating",
        pinned=False,
        places="256-byte starts, in sets of arrays that together exceed three times the L2",
        timer="events around a graph",
        sample_ns=1_000_000,
    )
