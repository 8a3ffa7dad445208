"""How long a kernel takes on a GPU: a graph of many calls between two events.

The host takes longer to launch a small kernel than the GPU to run it. So calls are recorded once as
a graph, which the GPU runs by itself. Before every row of samples memory is filled, which takes the
GPU long enough for the host to queue all that follows, and leaves nothing of use in the caches.

Where kernels are deployed without graphs, the host's share counts: calls are launched one by one,
as a program does it, and the host's clock says how long it takes until the last one has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skipjack.gpu.driver import Gpu, Graph

SLOW_NS = 2e6
"""A kernel whose single call takes longer is not recorded, and sampled once a block."""
_MOST_CALLS = 200
"""Of one graph: more take longer to record than they save."""
_ROUND_TRIP = 4.0
"""A sample may take so many times what was asked for, if it goes through all sets that way."""
_SENTINEL_BYTES = 128 << 20
_WARM_COPIES = 400
_MOST_FLUSHED = 256 << 20


class Clock(Protocol):
    """Runs something some times and gives the nanoseconds of each: see `GpuTimer.times`."""

    def __call__(
        self,
        queue: Callable[[], object],
        samples: int,
        before_all: Callable[[], object] | None = None,
    ) -> npt.NDArray[np.float64]: ...


class Timeable(Protocol):
    """A kernel on several sets of arrays."""

    @property
    def sets(self) -> int:
        """How many there are."""
        ...

    def queue(self, number: int) -> None:
        """Queue call number so and so, on the set whose turn it is."""
        ...

    def record(self, calls: int) -> Graph | None:
        """So many calls as a graph; None where they cannot be recorded."""
        ...


class Recorded:
    """One of our own kernels, bound to each set."""

    def __init__(self, gpu: Gpu, queues: Sequence[Callable[[], None]]) -> None:
        self._gpu, self._queues = gpu, queues

    @property
    def sets(self) -> int:
        """How many there are."""
        return len(self._queues)

    def queue(self, number: int) -> None:
        """Queue a call."""
        self._queues[number % len(self._queues)]()

    def record(self, calls: int) -> Graph:
        """As a graph of the driver."""

        def all_calls() -> None:
            for number in range(calls):
                self.queue(number)

        return self._gpu.capture(all_calls)


class Stopwatch:
    """A kernel that is being timed: how many calls make a sample, and their graph."""

    def __init__(
        self,
        timer: GpuTimer,
        kernel: Timeable,
        sample_ns: int,
        *,
        eager: bool = False,
        hot: bool = False,
    ) -> None:
        self._kernel, self._hot = kernel, hot
        self._clock = timer.host_times if eager else timer.times
        self.calls, self.slow = _calls(self._clock, kernel, sample_ns)
        self._graph = None if self.slow or eager else kernel.record(self.calls)

    def sample(self, samples: int) -> npt.NDArray[np.float64]:
        """Nanoseconds for each call; a slow kernel is sampled once."""
        self._kernel.queue(0)  # brings its code back
        run = self._graph.run if self._graph else self._queue_all
        before = (lambda: self._kernel.queue(0)) if self._hot else None
        return self._clock(run, 1 if self.slow else samples, before) / self.calls

    def _queue_all(self) -> None:
        for number in range(self.calls):
            self._kernel.queue(number)

    def close(self) -> None:
        """Free the graph."""
        if self._graph:
            self._graph.close()
            self._graph = None


def _calls(clock: Clock, kernel: Timeable, sample_ns: int) -> tuple[int, bool]:
    """How many calls make a sample, and whether one call is slow."""
    once = float(clock(lambda: kernel.queue(0), 1).min())
    if once < SLOW_NS:
        few = 4
        queue_few = _rows(kernel, few)
        once = min(once, float(clock(queue_few, 3).min()) / few)
    if once > SLOW_NS:
        return 1, True
    calls = max(1, round(sample_ns / max(once, 1.0)))
    whole_turns = -(-calls // kernel.sets) * kernel.sets
    affordable = int(_ROUND_TRIP * sample_ns / max(once, 1.0))
    return max(1, min(whole_turns, max(calls, affordable), _MOST_CALLS)), False


def _rows(kernel: Timeable, count: int) -> Callable[[], None]:
    def queue() -> None:
        for number in range(count):
            kernel.queue(number)

    return queue


class GpuTimer:
    """Events on a GPU's stream, and a sentinel: a copy of a fixed size."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        l2 = gpu.device.cache_bytes("L2")
        free = gpu.memory()[0]
        self._flushed = max(1 << 20, min(2 * l2, _MOST_FLUSHED, free // 64))
        self._size = max(1 << 20, min(_SENTINEL_BYTES, free // 64))
        self._target = gpu.allocate(max(self._size, self._flushed))
        self._source = gpu.allocate(self._size)
        gpu.fill(self._source, 1, self._size)
        self._warm = False

    def times(
        self,
        queue: Callable[[], object],
        samples: int,
        before_all: Callable[[], object] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Nanoseconds of each sample; all are queued before the first is waited for.

        `before_all` is queued after the caches were filled with something else, and not timed.
        """
        gpu = self._gpu
        gpu.fill(self._target, 0, self._flushed)
        if before_all:
            before_all()
        events = []
        for _ in range(samples):
            before = gpu.record_event()
            queue()
            events.append((before, gpu.record_event()))
        gpu.synchronize()
        return np.array([gpu.elapsed_ns(before, after) for before, after in events])

    def host_times(
        self,
        queue: Callable[[], object],
        samples: int,
        before_all: Callable[[], object] | None = None,
    ) -> npt.NDArray[np.float64]:
        """The same by the host's clock, from the first launch until the last one has ended."""
        gpu = self._gpu
        gpu.fill(self._target, 0, self._flushed)
        if before_all:
            before_all()
        out = np.empty(samples)
        for number in range(samples):
            gpu.synchronize()
            started = time.perf_counter_ns()
            queue()
            gpu.synchronize()
            out[number] = time.perf_counter_ns() - started
        return out

    def warm_up(self) -> None:
        """A GPU that slept needs a while to reach its clock."""
        if not self._warm:
            self.times(self._copy, _WARM_COPIES)
            self._warm = True

    def beat(self) -> float:
        """The sentinel's time: the best of three, so that one interruption does not count."""
        return float(self.times(self._copy, 3).min())

    def _copy(self) -> None:
        self._gpu.copy(self._target, self._source, self._size)
