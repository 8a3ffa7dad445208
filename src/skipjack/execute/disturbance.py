"""Signs that the machine did something else while we timed: other threads ran, time was stolen.

Samples are judged one by one. On a core that is shared, a call as long as a time slice of the
system is hardly ever undisturbed, a short one nearly always; so what was disturbed is timed again.
"""

from __future__ import annotations

import resource
import time
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

    def busy_ns(self) -> float | None:
        """How long this thread has run so far; None where it does not do all of the work."""
        ...


class Watch:
    """The counters of this thread and of one core."""

    def __init__(self, core: int | None) -> None:
        self._alone = core is not None
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

    def busy_ns(self) -> float | None:
        """CPU time of this thread, if kernels run on one core and so in it alone."""
        return float(time.thread_time_ns()) if self._alone else None


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

    Of a disturbed sample the time counts in which the kernel had the core. That is not its time,
    for whoever had the core meanwhile left the caches cold, but near enough to search by.
    What was disturbed is taken again, a few times. With `warm`, a call before the first sample of a
    place, and after whoever disturbed, brings code and data back into the caches.
    """
    quiet: list[float] = []
    disturbed: list[float] = []
    stolen, lost_ns = counters.steal(), 0.0
    for number, kernel in enumerate(places):
        wanted = len(quiet) + (samples + number) // len(places)
        cold = warm
        while len(quiet) < wanted and len(disturbed) < _TRIES * samples and lost_ns < _PATIENCE_NS:
            if cold:
                kernel.sample(1, 1)
            before, busy = counters.switches(), counters.busy_ns()
            time_ns = float(kernel.sample(calls, 1)[0])
            cold = counters.switches() != before
            if not cold:
                quiet.append(time_ns)
                continue
            now = counters.busy_ns()
            ran_ns = (now - busy) / calls if now is not None and busy is not None else time_ns
            disturbed.append(min(time_ns, ran_ns))
            lost_ns += time_ns * calls
            cold = warm
    if counters.steal() != stolen:
        disturbed += quiet
        quiet = []
    kept = quiet or disturbed
    return Samples(tuple(kept), not quiet, len(disturbed) if quiet else 0)
