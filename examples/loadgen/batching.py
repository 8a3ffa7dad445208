"""Samples wait in a queue until a batch is full, or until the oldest has waited long enough."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class Waiting(NamedTuple):
    """One sample to be answered."""

    id: int
    """LoadGen's, to answer with."""
    row: int
    """Of the sample in the data set."""


class BatchQueue:
    """Any thread puts samples in, worker threads take batches out.

    A batch is given out when it has `batch_size` samples, when its oldest sample has waited for
    `delay_us`, or when `flush` said that no more will come for now.
    """

    def __init__(self, batch_size: int, delay_us: float) -> None:
        if batch_size < 1 or delay_us < 0:
            raise ValueError(f"batch_size {batch_size} must be positive, delay_us {delay_us} too")
        self.batch_size = batch_size
        self.delay = delay_us / 1e6
        self._waiting: deque[tuple[Waiting, float]] = deque()
        self._changed = threading.Condition()
        self._flushed = False
        self._closed = False

    def put(self, samples: Sequence[Waiting]) -> None:
        """Add samples; returns at once."""
        now = time.perf_counter()
        with self._changed:
            self._flushed = False
            self._waiting.extend((sample, now) for sample in samples)
            # One batch wakes one worker; the others stay asleep rather than fight for the lock.
            self._changed.notify(max(1, len(samples) // self.batch_size))

    def flush(self) -> None:
        """No more samples for now: what waits need not wait for company."""
        with self._changed:
            self._flushed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Workers go home when nothing waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self) -> list[Waiting]:
        """The next batch; waits for one. Empty: the queue is closed and nothing is left."""
        with self._changed:
            while not self._ready():
                if self._closed and not self._waiting:
                    return []
                self._changed.wait(self._patience())
            count = min(self.batch_size, len(self._waiting))
            batch = [self._waiting.popleft()[0] for _ in range(count)]
            if self._waiting:
                self._changed.notify()
            return batch

    def _ready(self) -> bool:
        """Whether a batch may leave now."""
        if not self._waiting:
            return False
        if self._flushed or self._closed or len(self._waiting) >= self.batch_size:
            return True
        return time.perf_counter() - self._waiting[0][1] >= self.delay

    def _patience(self) -> float | None:
        """Seconds until the oldest sample has waited enough; None: until something comes."""
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0][1] + self.delay - time.perf_counter())
