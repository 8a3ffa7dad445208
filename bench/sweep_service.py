"""A service whose limit is known: sleeping workers behind one queue, with noise put in on purpose.

The same service runs under LoadGen in real time (`sweep_trial`) and here in virtual time, many
times over, on the very schedule of LoadGen: that is how its limit is known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EARLY_STOPPING_CONFIDENCE = 0.99
_WORD = 2.0**32


@dataclass(frozen=True)
class Service:
    """Queries wait for a worker, which takes some time for each; now and then all workers stall."""

    workers: int = 8
    service_ms: float = 8.0
    slow_share: float = 0.05
    """Of queries, which take `slow_factor` times as long."""
    slow_factor: float = 3.0
    stall_share: float = 0.1
    """Of tests, in which all workers stop for `stall_ms` once."""
    stall_ms: float = 150.0
    bound_ms: float = 30.0
    percentile: float = 0.9
    queries: int = 300
    schedule_seed: int = 1234
    overshoot_ms: float = 0.0
    """How much longer a worker is busy with a query than it sleeps. Measured."""
    delay_ms: float = 0.0
    """What else a query takes: messages between threads. Measured."""

    def draw(self, rng: np.random.Generator, tests: int) -> Draw:
        """The luck of so many tests: what each query takes, and when workers stall."""
        slow = rng.random((tests, self.queries)) < self.slow_share
        spread = rng.uniform(0.8, 1.2, (tests, self.queries))
        times = self.service_ms * spread * np.where(slow, self.slow_factor, 1.0)
        stalls = rng.random(tests) < self.stall_share
        share = np.where(stalls, rng.uniform(0.1, 0.8, tests), np.inf)
        return Draw(times, share)

    @cached_property
    def arrivals(self) -> Floats:
        """When LoadGen issues each query, at one query per unit of time.

        Gaps are exponential from the schedule's seed, as the C++ standard library draws them.
        """
        words = np.random.RandomState(self.schedule_seed).randint(
            0, 2**32, 2 * self.queries, dtype=np.uint64
        )
        uniform = (words[0::2] + words[1::2] * _WORD) / _WORD**2
        return np.concatenate([[0.0], np.cumsum(-np.log1p(-uniform))[:-1]])

    def late(self, load: float, draw: Draw) -> NDArray[np.int64]:
        """How many queries of each test take longer than the bound, in virtual time."""
        tests = len(draw.times)
        arrivals = self.arrivals / load * 1e3
        from_ms = draw.stall_share * arrivals[-1]
        to_ms = from_ms + self.stall_ms
        free = np.zeros((tests, self.workers))
        late = np.zeros(tests, dtype=np.int64)
        row = np.arange(tests)
        for query, arrival in enumerate(arrivals):
            worker = free.argmin(axis=1)
            start = np.maximum(free[row, worker], arrival)
            start = np.where((start >= from_ms) & (start < to_ms), to_ms, start)
            end = start + draw.times[:, query] + self.overshoot_ms
            free[row, worker] = end
            late += end - arrival > self.bound_ms - self.delay_ms
        return late

    @property
    def most_late(self) -> int:
        """How many late queries LoadGen's latency condition allows."""
        return int(self.queries * (1.0 - self.percentile) + 1e-9)

    @property
    def most_late_valid(self) -> int:
        """How many late queries a VALID test may have: early stopping wants to be sure."""
        share, total, allowed = 1.0 - self.percentile, 0.0, -1
        for late in range(self.queries):
            total += comb(self.queries, late) * share**late * (1 - share) ** (self.queries - late)
            if total > 1.0 - _EARLY_STOPPING_CONFIDENCE:
                break
            allowed = late
        return min(allowed, self.most_late)

    def chance(self, load: float, draw: Draw, *, valid: bool = True) -> float:
        """The share of tests that hold."""
        most = self.most_late_valid if valid else self.most_late
        return float((self.late(load, draw) <= most).mean())

    def limit(
        self, rng: np.random.Generator, *, valid: bool = True, tests: int = 4000, holds: float = 0.5
    ) -> float:
        """The load at which this share of tests holds."""
        draw = self.draw(rng, tests)
        low, high = self.capacity / 8, self.capacity * 2
        while high / low > 1.0005:
            middle = (low * high) ** 0.5
            good = self.chance(middle, draw, valid=valid) >= holds
            low, high = (middle, high) if good else (low, middle)
        return float((low * high) ** 0.5)

    @property
    def capacity(self) -> float:
        """Queries per second if workers never waited."""
        mean_ms = self.service_ms * (1.0 + self.slow_share * (self.slow_factor - 1.0))
        return self.workers / (mean_ms + self.overshoot_ms) * 1e3

    def to_json(self) -> dict[str, Any]:
        """For records."""
        return asdict(self)


@dataclass(frozen=True)
class Draw:
    """The luck of some tests: a row each."""

    times: Floats
    """What each query takes, in ms."""
    stall_share: Floats
    """When workers stall, as a share of the schedule; infinite if never."""
