"""Signs that the machine did something else while we timed: other threads ran, time was stolen.

Samples are judged one by one. On a core that is shared, a call as long as a time slice of the
system is hardly ever undisturbed, a short one nearly always; so what was disturbed is timed again.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skipjack.execute.kernels import Kernel

_STAT = Path("/proc/stat")
_STEAL_FIELD = 8
"""Position of ``steal`` in a cpu line of /proc/stat, its name counted."""
_TRIES = 3
"""For one sample that a block should have, on average."""
_PATIENCE_NS = 3e7
"""Nothing is timed again in a block whose disturbed samples took longer."""


class Counters(Protocol):
    """Counts that only grow, each when something else had the core."""

    def switches(self) -> int:
        """How often this thread had to make room; read for every sample."""
        ...

    def steal(self) -> int:
        """Ticks in which the hypervisor ran somebody else; read for every block."""
        ...


class Watch:
    """The counters of this thread and of one core."""

    def __init__(self, core: int | None) -> None:
        self._label = f"cpu{core} " if core is not None else "cpu "

    def switches(self) -> int:
        """Involuntary context switches of this thread."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw

    def steal(self) -> int:
        """Stolen ticks of the core; 0 where nobody counts them."""
        try:
            with _STAT.open() as stat:
                for line in stat:
                    if line.startswith(self._label):
                        return int(line.split()[_STEAL_FIELD])
        except (OSError, ValueError, IndexError):
            pass
        return 0


@dataclass(frozen=True, slots=True)
class Samples:
    """Nanoseconds for each call."""

    times_ns: tuple[float, ...]
    disturbed: bool
    """Whether none of them was undisturbed."""
    dropped: int
    """Disturbed ones that are left out."""


def take_samples(
    places: Sequence[Kernel], calls: int, samples: int, counters: Counters, *, warm: bool = True
) -> Samples:
    """Some samples of so many calls each, an equal share at each place; odd ones at the last.

    What was disturbed is taken again, a few times. With `warm`, a call before the first sample of a
    place, and after whoever disturbed, brings code and data back into the caches.
    """
    quiet: list[float] = []
    disturbed: list[float] = []
    stolen = counters.steal()
    for number, kernel in enumerate(places):
        wanted = len(quiet) + (samples + number) // len(places)
        cold = warm
        while len(quiet) < wanted and _may_try(disturbed, calls, samples):
            if cold:
                kernel.sample(1, 1)
            before = counters.switches()
            time_ns = float(kernel.sample(calls, 1)[0])
            moved = counters.switches() != before
            (disturbed if moved else quiet).append(time_ns)
            cold = warm and moved
    if counters.steal() != stolen:
        disturbed += quiet
        quiet = []
    kept = quiet or disturbed
    return Samples(tuple(kept), not quiet, len(disturbed) if quiet else 0)


def _may_try(disturbed: Sequence[float], calls: int, samples: int) -> bool:
    return len(disturbed) < _TRIES * samples and sum(disturbed) * calls < _PATIENCE_NS
