"""How something is timed. Two measurements are comparable only under one protocol."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TimingProtocol:
    """Everything about a timing that is not the kernel or the device."""

    alignment_bytes: int = 64
    caches: Literal["hot"] = "hot"
    """Arrays are used again and again; nothing is flushed in between."""
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
