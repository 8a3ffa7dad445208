"""Estimated times of configs of convolutions, to try the good configs first.

A unit runs as many blocks at once as fit in its registers and shared memory. They share its matrix
units and its bandwidth to the L2 cache; a single block waits for its copies. The constants were
fitted to about 1,500 measurements on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from skipjack.core import Config, Device
from skipjack.gpu import KNOWN, GpuLimits
from skipjack.solvers.gpu.conv.layer import ConvLayer, SumParts, ceil_div
from skipjack.solvers.gpu.conv.stages import output_strides

_CYCLES_PER_NS = 1.7
_RESERVED = 2048
"""Bytes of shared memory of each block that are reserved for other data."""
_WIDE = {16: 0.2, 32: 0.3, 64: 0.42, 128: 0.54, 256: 1.0}
"""Relative speed of the matrix units by the pixels of a tile."""
_PASS_NS = 2500
"""Time of an additional kernel."""
_PASS_BYTES = 2500
"""Bytes per nanosecond that it moves."""


@dataclass(frozen=True, slots=True)
class BlockCost:
    """The work of one block of threads."""

    sums: int
    """Accumulators: elements of its tile."""
    shared: int
    warps: int
    stages: int
    step_cycles: float
    """Cycles of the matrix units for a step of the loop."""
    step_bytes: int
    steps: float

    def at_once(self, limits: GpuLimits, walk: int) -> int:
        """Number of blocks that a unit runs at once."""
        threads = self.warps * limits.warp
        registers = self.sums // threads + (70 if walk else 45)
        held = min(
            limits.sm_shared_bytes // (self.shared + _RESERVED),
            limits.registers // (registers * threads),
            limits.threads // threads,
        )
        return max(1, min(held, walk or held))

    def step(self, at_once: int, bytes_per_cycle: float, latency: float) -> float:
        """Cycles of a step of all blocks on a unit."""
        busy = max(self.step_cycles, self.step_bytes / bytes_per_cycle) * at_once
        return max(busy, (latency + self.step_cycles) / max(1, self.stages - 1))


def tile_ns(layer: ConvLayer, device: Device, pixels: int, config: Config, wasted: float) -> float:
    """Time of the result or the image, in tiles of pixels by channels."""
    cols, depth, warps, stages = (int(config[at]) for at in ("cols", "depth", "warps", "stages"))
    walk, store = int(config.get("walk", 0)), config.get("store", "last")
    high, wide = output_strides(layer)
    boxes = ceil_div(int(prod(layer.sizes(layer.geometry.wanted)) * wasted), pixels)
    tiles = boxes * ceil_div(layer.cols, cols) * layer.geometry.groups
    held, stored = (pixels + cols) * depth * layer.element_bytes * stages, pixels * cols * 2
    if store == "last":
        stored = 0
    speed = 4096 * _WIDE[pixels] * 2 / layer.element_bytes
    if warps == 8 and pixels * cols <= 128 * 128:
        speed *= 0.77
    block = BlockCost(
        pixels * cols,
        held + stored if walk else max(held, stored),
        warps,
        stages,
        max(64, cols) * pixels * depth / speed,
        (pixels + cols) * depth * layer.element_bytes,
        layer.geometry.taps / (high * wide) * ceil_div(layer.depth, depth),
    )
    at_once = block.at_once(KNOWN[device.arch], walk)
    waves = ceil_div(tiles, device.units * at_once)
    step = block.step(at_once, 104, 950)
    if walk:
        return (waves * (block.steps * step + 260 * at_once) + 4000) / _CYCLES_PER_NS
    return waves * (block.steps * step + 4000) / _CYCLES_PER_NS


def planes_ns(layer: ConvLayer, store: str, columns: int) -> float:
    """Additional time to write NCHW: short runs of a row, or a transpose afterwards."""
    moved = layer.elements(layer.geometry.wanted) * layer.element_bytes
    if store == "box":
        return _PASS_NS + 2 * moved / _PASS_BYTES
    # Memory is written in sectors of 16 elements; with strides each sector is written repeatedly.
    short = 16.0 if layer.places > 1 else max(1.0, 16 / columns)
    return moved * short / 2000


def filter_ns(
    layer: ConvLayer, device: Device, config: Config, taps_at_once: int, chunks: int
) -> float:
    """Time of the filter's gradient, in tiles of channels by channels, over `chunks` of pixels."""
    k, c, pixels = (int(config[at]) for at in ("k", "c", "pixels"))
    taps = ceil_div(layer.geometry.taps, taps_at_once)
    tiles = ceil_div(layer.k, k) * ceil_div(layer.c, c) * taps * layer.geometry.groups
    parts = SumParts.of(chunks, tiles, device.units, int(config["waves"]))
    each = (k + c * taps_at_once) * pixels * layer.element_bytes
    speed = 2048 * 2 / layer.element_bytes * (0.5 if c <= 64 else 1.0)
    block = BlockCost(
        k * c * taps_at_once,
        each * int(config["stages"]),
        int(config["warps"]),
        int(config["stages"]),
        max(64, k) * c * taps_at_once * pixels / speed,
        each,
        parts.share,
    )
    programs = tiles * parts.count
    at_once = block.at_once(KNOWN[device.arch], 0)
    at_once = min(at_once, ceil_div(programs, device.units))
    waves = ceil_div(programs, device.units * at_once)
    found = waves * (block.steps * block.step(at_once, 37, 1400) + 2300) / _CYCLES_PER_NS
    if parts.several:
        found += 1500 + layer.elements("filter") * parts.count * 4 / 1000
    return found
