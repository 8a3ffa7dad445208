"""Signs that the machine did something else while we timed: other threads ran, time was stolen."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_STEAL_FIELD = 8
"""Position of ``steal`` in a cpu line of /proc/stat, its name counted."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts that only grow."""

    involuntary_switches: int
    steal_ticks: int

    def disturbed_since(self, before: Counters) -> bool:
        """Whether anything was counted in between."""
        return (
            self.involuntary_switches > before.involuntary_switches
            or self.steal_ticks > before.steal_ticks
        )


class Watch:
    """Reads the counters of this thread and of one core."""

    def __init__(self, core: int | None) -> None:
        self._label = f"cpu{core} " if core is not None else "cpu "

    def read(self) -> Counters:
        """The counts now."""
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        return Counters(usage.ru_nivcsw, self._steal())

    def _steal(self) -> int:
        try:
            with _STAT.open() as stat:
                for line in stat:
                    if line.startswith(self._label):
                        return int(line.split()[_STEAL_FIELD])
        except (OSError, ValueError, IndexError):
            pass
        return 0
