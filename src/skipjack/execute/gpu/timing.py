"""How long a kernel takes on a GPU, and what the GPU can do at most.

The host takes longer to launch a small kernel than the GPU to run it, so calls are recorded once
as a graph, which the GPU runs on its own. Before each series of samples memory is filled, which
takes the GPU long enough for the host to queue all that follows, and empties the caches. If
kernels are deployed without graphs, the host's time counts: calls are launched one by one, as a
program does it, and the host's clock measures how long it takes until the last one has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skipjack.core import Peaks
from skipjack.execute.gpu.torch_bridge import TorchBridge
from skipjack.gpu import Gpu, Graph
from skipjack.operations import parse
from skipjack.solvers.vendor import CublasSolver

# The time of a kernel: a graph of many calls between two events, or single launches by the host's
# clock.

SLOW_NS = 2e6
"""A kernel whose single call takes longer is not recorded, and sampled once per block."""
_MOST_CALLS = 200
"""Most calls of one graph: more take longer to record than they save."""
_ROUND_TRIP = 4.0
"""A sample may take this multiple of its time if it then goes through all sets."""
_SENTINEL_BYTES = 128 << 20
_WARM_COPIES = 400
_MOST_FLUSHED = 256 << 20


class Clock(Protocol):
    """Runs something several times and returns the nanoseconds of each: see `GpuTimer.times`."""

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
        """The number of sets."""
        ...

    def queue(self, number: int) -> None:
        """Queue call `number`, on the set whose turn it is."""
        ...

    def record(self, calls: int) -> Graph | None:
        """A graph of this many calls; None if they cannot be recorded."""
        ...


class Recorded:
    """A kernel of ours, bound to each set."""

    def __init__(self, gpu: Gpu, queues: Sequence[Callable[[], None]]) -> None:
        self._gpu, self._queues = gpu, queues

    @property
    def sets(self) -> int:
        """The number of sets."""
        return len(self._queues)

    def queue(self, number: int) -> None:
        """Queue a call."""
        self._queues[number % len(self._queues)]()

    def record(self, calls: int) -> Graph:
        """The calls as a graph of the driver."""

        def all_calls() -> None:
            for number in range(calls):
                self.queue(number)

        return self._gpu.capture(all_calls)


class Stopwatch:
    """A kernel that is timed: the number of calls of a sample, and their graph."""

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
        """Nanoseconds per call, for each sample; a slow kernel is sampled once."""
        self._kernel.queue(0)  # brings its code back into the caches
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
    """The number of calls of a sample, and whether a call is slow."""
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

        `before_all` is queued after the caches were emptied, and not timed.
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
        """Times by the host's clock, from the first launch until the last call has ended."""
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
        """Run copies once, since an idle GPU needs a while to reach its clock rate."""
        if not self._warm:
            self.times(self._copy, _WARM_COPIES)
            self._warm = True

    def time_sentinel(self) -> float:
        """The sentinel's time: the best of three, so that one interruption does not matter."""
        return float(self.times(self._copy, 3).min())

    def _copy(self) -> None:
        self._gpu.copy(self._target, self._source, self._size)


# The peaks of a GPU: bandwidth of copies by footprint, and the arithmetic of its library.

_SAMPLES = 20
_MOST_BYTES = 2 << 30
_SIZE = 4096
_PRODUCTS = ("f16", "bf16", "tf32", "f32", "f64")
_LEAST_NS = 200_000.0
"""Copies are repeated until a sample takes about this long."""


def footprints(l2_bytes: int, free_bytes: int) -> list[int]:
    """Sizes of arrays: parts of the last cache, then memory."""
    most = max(1 << 20, min(_MOST_BYTES, free_bytes // 8))
    wanted = (l2_bytes // 4, l2_bytes // 2, l2_bytes, 4 * l2_bytes, 16 * l2_bytes)
    return sorted({min(max(size, 1 << 20), most) for size in wanted})


def measure(gpu: Gpu, timer: GpuTimer, bridge: TorchBridge | None) -> Peaks:
    """Measure in a run worker. Arithmetic is that of PyTorch's products; unknown without PyTorch.

    As everywhere, arithmetic is that of one unit; the GPU does it times the number of its units.
    """
    flops = arithmetic(timer, bridge, gpu.device.units) if bridge else ()
    sizes = footprints(gpu.device.cache_bytes("L2"), gpu.memory()[0])
    half = max(sizes) // 2
    source, target = gpu.allocate(half), gpu.allocate(half)
    rates, noise = [], 0.0
    try:
        gpu.fill(source, 1, half)
        timer.warm_up()
        for size in sizes:
            times = _copies(gpu, timer, target, source, size // 2)
            low, middle, high = np.percentile(times, [25, 50, 75])
            noise = float((high - low) / middle)
            rates.append((size, 2 * (size // 2) / float(np.percentile(times, 10)) * 1e9))
    finally:
        gpu.free(source)
        gpu.free(target)
    return Peaks(flops, tuple(rates), (), noise)


def arithmetic(timer: GpuTimer, bridge: TorchBridge, units: int) -> tuple[tuple[str, float], ...]:
    """Arithmetic operations per second of one unit in large products, by type."""
    timer.warm_up()
    flops = []
    for dtype in _PRODUCTS:
        problem = parse(f"matmul:{_SIZE}x{_SIZE}x{_SIZE}:{dtype}")
        with bridge.working():
            tensors = {
                name: bridge.zeros((_SIZE, _SIZE), dtype).uniform_(-1, 1)
                for name in ("a", "b", "out")
            }
            product = CublasSolver().bind_gpu(problem, tensors)
            timer.times(product, 2)
            fastest = float(timer.times(product, 8).min())
        flops.append((dtype, 2.0 * _SIZE**3 / fastest * 1e9 / units))
    bridge.release()
    return tuple(flops)


def _copies(gpu: Gpu, timer: GpuTimer, target: int, source: int, size: int) -> np.ndarray:
    """Samples of the time of a copy in nanoseconds."""
    once = max(1.0, float(timer.times(lambda: gpu.copy(target, source, size), 3).min()))
    count = max(1, min(100, round(_LEAST_NS / once)))

    def queue() -> None:
        for _ in range(count):
            gpu.copy(target, source, size)

    graph = gpu.capture(queue)
    try:
        timer.times(graph.run, 2)
        return timer.times(graph.run, _SAMPLES) / count
    finally:
        graph.close()
