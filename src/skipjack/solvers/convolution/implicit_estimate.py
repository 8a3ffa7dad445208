"""How long an implicit matrix product that computes pixels takes, by arithmetic alone.

It is meant to order configs.
Times are cycles of one thread on a core that starts one multiply-add of whole vectors in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from skipjack.core.device import Device
from skipjack.native.cpu import registers_of
from skipjack.native.ir import VectorType
from skipjack.solvers.convolution.implicit_axes import AxisPart, runs
from skipjack.solvers.convolution.implicit_gather import Gather, Parts
from skipjack.solvers.convolution.implicit_pixel_tile import PixelForm

_UNDER_WAY = 8.0
"""Multiply-adds that must be under way at once to hide their latency."""
_LOAD = 0.04
"""What a load costs that hides behind arithmetic."""
LOOP, TILE, VECTOR = 14.0, 30.0, 2.0
"""An inner loop that is begun, a tile that is begun, a vector of it that is written."""
_PACKED, _PACKED_BEYOND = 0.3, 0.25
"""Packing an element; and what that grows by with the share of L2 that a packed block fills."""
_FROM_L3, _FROM_MEMORY = 0.03, 0.25
"""A byte that comes from there."""
_STRIPE = 128.0
"""Bytes that are read around a narrow stripe that is written."""
_SHORT_RUN = 100.0
"""What packing the channels that lie side by side costs more, by the bytes of such a run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What an estimate knows of a device."""

    threads: int
    registers: int
    l2: int
    l3: int

    @classmethod
    def of(cls, device: Device) -> Machine:
        """Of a CPU."""
        l2 = device.cache_bytes("L2") or 1 << 20
        l3 = device.cache_bytes("L3") or 8 << 20
        return cls(device.units, registers_of(device), l2, l3)

    def price(self, footprint: float) -> float:
        """Of a byte of so many that are swept over."""
        if footprint <= self.l2 / 2:
            return 0.0
        return _FROM_L3 if footprint <= self.l3 / 2 else _FROM_MEMORY

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether a tile's sums, a row of B and an element are in registers."""
        return rows * vectors + vectors + 1 <= self.registers


def step(rows: int, vectors: int) -> float:
    """One step of a tile."""
    if not rows:
        return 0.0
    return max(rows * vectors, _UNDER_WAY, rows + vectors) + _LOAD * (rows + vectors)


def sizes_of(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """How many pieces of which size cover an extent."""
    full, rest = divmod(extent, size)
    if full:
        yield full, size
    if rest:
        yield 1, rest


@lru_cache(maxsize=256)
def pixel_line(width: AxisPart, images: int, pixels: int, vectors: int) -> tuple[float, int, int]:
    """Of one line of a phase against a panel: a step of all its tiles, tiles, and inner loops."""
    time, tiles, loops = 0.0, 0, 0
    for run in runs(width, pixels):
        spans = [stop - start for start, stop in run.active]
        time += run.tiles * sum(step(images * span, vectors) for span in spans)
        tiles += run.tiles
        loops += run.tiles * len(spans)
    return time, tiles, loops


@lru_cache(maxsize=256)
def valid_taps(part: AxisPart) -> int:
    """Of all elements along an axis, how many taps lie inside."""
    inside = (part.active(tap, 0, part.count) for tap in range(part.taps))
    return sum(stop - start for start, stop in inside)


@dataclass(frozen=True, slots=True)
class PixelWalk:
    """What of a config is set at run time."""

    depth: int
    panels: int
    lines: int
    by_panels: bool
    rounds: int = 1
    """In which the filter is packed anew."""


class PixelEstimate:
    """Of forward and backward-data: a function of what is built and what is set."""

    def __init__(self, gather: Gather, machine: Machine) -> None:
        self.gather, self.machine = gather, machine
        self._computed: dict[tuple[PixelForm, int, bool], float] = {}
        self.largest = max(gather.phases, key=lambda p: p[0].taps * p[1].taps * p[2].taps)

    def __call__(self, form: PixelForm, walk: PixelWalk) -> float:
        """Relative time."""
        key = form, walk.depth, walk.by_panels
        if key not in self._computed:
            times = (self._computing(form, walk, parts) for parts in self.gather.phases)
            self._computed[key] = sum(times)
        traffic = len(self.gather.phases) * self._traffic(form, walk)
        packing = walk.rounds * self._packing(form, walk)
        return self.gather.groups * (self._computed[key] + packing + traffic)

    def _computing(self, form: PixelForm, walk: PixelWalk, parts: Parts) -> float:
        """The busiest thread's tiles."""
        gather, lanes = self.gather, form.vector.lanes
        images = gather.n // form.images
        passes = -(-gather.reduced // walk.depth)
        above = valid_taps(parts[0]) * valid_taps(parts[1]) * images
        lines = parts[0].count * parts[1].count * images
        rows = parts[2].count * form.images
        total = 0.0
        for count, columns in sizes_of(gather.columns, form.columns):
            vectors = columns if form.dots else -(-columns // lanes)
            time, tiles, loops = pixel_line(parts[2], form.images, form.pixels, vectors)
            steps = form.depth_of(gather.reduced) / (lanes if form.dots else 1)
            inner = time * steps + LOOP * loops * passes
            writing = passes * (TILE * tiles + VECTOR * rows * vectors * (1 + (passes > 1)))
            total += count * (inner * above + writing * lines)
        pieces = self._panels(form) if walk.by_panels else lines
        return total * share_of(pieces, self.machine.threads)

    def _panels(self, form: PixelForm) -> int:
        return -(-self.gather.columns // form.columns)

    def _packing(self, form: PixelForm, walk: PixelWalk) -> float:
        """The filter, by each thread for itself; from runs of memory that are short or long."""
        gather, filters, item = self.gather, self.gather.filters, form.vector.item_bytes
        taps = gather.most_taps
        block = taps * walk.depth * walk.panels * form.columns * item
        price = _PACKED + _PACKED_BEYOND * min(2.0, block / self.machine.l2)
        if filters.reduced == 1:
            whole = walk.depth >= gather.reduced
            price += _SHORT_RUN / (walk.depth * item * (taps if whole else 1))
        elements = sum(d.taps * h.taps * w.taps for d, h, w in gather.phases)
        elements *= gather.reduced * gather.columns
        if walk.by_panels:
            price *= share_of(self._panels(form), self.machine.threads)
        return elements * price

    def _traffic(self, form: PixelForm, walk: PixelWalk) -> float:
        """Reading the source and writing the output of a phase, from where the caches end."""
        gather, machine, item = self.gather, self.machine, form.vector.item_bytes
        depth, height, width = self.largest
        panels, passes = self._panels(form), -(-gather.reduced // walk.depth)
        blocks = -(-panels // walk.panels)
        lines = depth.count * height.count * (gather.n // form.images)
        line = form.images * height.step * gather.source.axes[1] * item
        out_line = form.images * width.count * gather.columns * item
        halo = form.images * height.taps * height.spread * gather.source.axes[1] * item
        at_once = min(walk.lines, max(1, lines // walk.rounds))
        block = at_once * (line + out_line) / passes + halo
        far = machine.price(lines * (line + out_line) / walk.rounds)
        read = lines * line * blocks * (far + (walk.panels - 1) * machine.price(block))
        # A narrow stripe of the output brings more of it into the caches than it writes.
        stripe = 1.0 + _STRIPE / (min(walk.panels, panels) * form.columns * item)
        written = (2 * passes - 1) * lines * out_line * stripe * far
        panel = gather.most_taps * walk.depth * form.columns * item
        filters = lines / at_once * passes * panels * panel * machine.price(panel * walk.panels)
        return (read + written + filters) / machine.threads


def share_of(pieces: int, threads: int) -> float:
    """Of the whole that the busiest thread has."""
    return -(-pieces // threads) / pieces


def vector_of(dtype: str, device: Device) -> VectorType:
    """The widest of a device."""
    item = VectorType(dtype, 1).item_bytes
    return VectorType(dtype, max(1, device.vector_bytes // item))
