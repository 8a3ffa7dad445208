"""What a GPU can do at most: bandwidth of copies by footprint, and its library's arithmetic."""

from __future__ import annotations

import numpy as np

from skipjack.core.device import Peaks
from skipjack.execute.gpu.timing import GpuTimer
from skipjack.execute.gpu.torch_bridge import TorchBridge
from skipjack.gpu.driver import Gpu
from skipjack.operations import parse
from skipjack.solvers.vendor.torch_gpu import CublasSolver

_SAMPLES = 20
_MOST_BYTES = 2 << 30
_SIZE = 4096
_PRODUCTS = ("f16", "bf16", "tf32", "f32", "f64")
_LEAST_NS = 200_000.0
"""Copies are repeated until a sample takes about so long."""


def footprints(l2_bytes: int, free_bytes: int) -> list[int]:
    """Parts of the last cache, then memory."""
    most = max(1 << 20, min(_MOST_BYTES, free_bytes // 8))
    wanted = (l2_bytes // 4, l2_bytes // 2, l2_bytes, 4 * l2_bytes, 16 * l2_bytes)
    return sorted({min(max(size, 1 << 20), most) for size in wanted})


def measure(gpu: Gpu, timer: GpuTimer, bridge: TorchBridge | None) -> Peaks:
    """Runs inside of a run worker. Arithmetic is what PyTorch's products reach; else unknown.

    As everywhere, arithmetic is that of one unit, so that all units together do so many times it.
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
    """Arithmetic steps a second of one unit in large products, by type."""
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
    """Nanoseconds of a copy, in several samples."""
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
