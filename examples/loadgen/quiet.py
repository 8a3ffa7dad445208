"""Whether the machine gives what it can: a fixed piece of work is timed before and after a test.

Other processes, other guests of the same host and clocks that go down all show in it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from network import Network
from samples import Tokens

CALLS = 3
SLOWER = 1.3
"""What takes so many times the best that was seen is disturbed."""


@dataclass
class Sentinel:
    """Times the same batch on all workers at once."""

    network: Network
    workers: int
    tokens: Tokens
    best: float = field(default=float("inf"))
    """Seconds; the shortest ever seen."""

    def disturbed(self) -> bool:
        """Whether the batch takes clearly longer now than it can."""
        seconds = self._time()
        self.best = min(self.best, seconds)
        return seconds > SLOWER * self.best

    def wait(self, patience_s: float) -> bool:
        """Wait until it is not disturbed; whether that came about in time."""
        until = time.monotonic() + patience_s
        while self.disturbed():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def _time(self) -> float:
        """The shortest of a few calls, on the slowest worker."""
        shortest = [float("inf")] * self.workers

        def work(worker: int) -> None:
            for _ in range(CALLS):
                started = time.perf_counter()
                self.network.classify(worker, self.tokens)
                shortest[worker] = min(shortest[worker], time.perf_counter() - started)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(shortest)
