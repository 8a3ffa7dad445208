"""How much work to give ahead, and what to do how often."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

_AHEAD_S = 0.5
"""Workers are given so much work ahead that they need not wait for the store between two jobs."""


@dataclass
class Pace:
    """How long a task takes, and so how many a worker should hold."""

    seconds: float = math.inf

    def note(self, seconds: float) -> None:
        before = self.seconds if self.seconds < math.inf else seconds
        self.seconds = 0.8 * before + 0.2 * seconds

    def ahead(self, most: int) -> int:
        if self.seconds == math.inf:
            return min(2, most)
        wanted = 1 + math.ceil(_AHEAD_S / max(self.seconds, 1e-4))
        return max(1, min(most, wanted))


@dataclass
class Every:
    """When something was last done, to do it every so often."""

    every_s: float
    last: float = field(default=-math.inf)

    def due(self) -> bool:
        now = time.monotonic()
        if now - self.last < self.every_s:
            return False
        self.last = now
        return True
