"""How long an implicit matrix product takes, by arithmetic alone: meant to order configs.

Times are cycles of one thread on a core that starts one multiply-add of whole vectors per cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from skipjack.core import Device
from skipjack.native import VectorType, registers_of
from skipjack.operations import Geometry
from skipjack.solvers.cpu.conv.implicit_gemm.filter_gradients import row_count
from skipjack.solvers.cpu.conv.implicit_gemm.gather import (
    AxisPart,
    AxisParts,
    Gather,
    even_size,
    forward_part,
    tile_runs,
)
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_blocks import FilterForm
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_tile import PixelForm

# Forward and backward-data.

_UNDER_WAY = 8.0
"""Multiply-adds that must be in flight to hide their latency."""
_LOAD = 0.04
"""The cost of a load that arithmetic hides."""
LOOP, TILE, VECTOR = 14.0, 30.0, 2.0
"""Starting an inner loop, starting a tile, writing a vector of a tile."""
_PACKED, _PACKED_BEYOND = 0.3, 0.25
"""Packing an element; and the surcharge by the share of L2 that a packed block fills."""
_FROM_L3, _FROM_MEMORY = 0.03, 0.25
"""A byte from L3, and from memory."""
_STRIPE = 128.0
"""Bytes that are read around a narrow stripe of the output."""
_SHORT_RUN = 100.0
"""The surcharge of packing short runs of channels, divided by the bytes of a run."""


@dataclass(frozen=True, slots=True)
class CpuLimits:
    """The properties of a device that the estimate uses."""

    threads: int
    registers: int
    l2: int
    l3: int

    @classmethod
    def of(cls, device: Device) -> CpuLimits:
        """The limits of a CPU."""
        l2 = device.cache_bytes("L2") or 1 << 20
        l3 = device.cache_bytes("L3") or 8 << 20
        return cls(device.units, registers_of(device), l2, l3)

    def price(self, footprint: float) -> float:
        """The price of a byte when `footprint` bytes are read repeatedly."""
        if footprint <= self.l2 / 2:
            return 0.0
        return _FROM_L3 if footprint <= self.l3 / 2 else _FROM_MEMORY

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether the sums of a tile, a row of B and an element fit the registers."""
        return rows * vectors + vectors + 1 <= self.registers


def tile_step(rows: int, vectors: int) -> float:
    """Cycles of one step of a tile."""
    if not rows:
        return 0.0
    return max(rows * vectors, _UNDER_WAY, rows + vectors) + _LOAD * (rows + vectors)


def sizes_of(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts that cover an extent: how many of which size."""
    full, rest = divmod(extent, size)
    if full:
        yield full, size
    if rest:
        yield 1, rest


@lru_cache(maxsize=256)
def pixel_line(width: AxisPart, images: int, pixels: int, vectors: int) -> tuple[float, int, int]:
    """One line of a phase against a panel: cycles of one step of all tiles, tiles, inner loops."""
    time, tiles, loops = 0.0, 0, 0
    for run in tile_runs(width, pixels):
        spans = [stop - start for start, stop in run.active]
        time += run.tiles * sum(tile_step(images * span, vectors) for span in spans)
        tiles += run.tiles
        loops += run.tiles * len(spans)
    return time, tiles, loops


@lru_cache(maxsize=256)
def valid_taps(part: AxisPart) -> int:
    """The number of taps inside the source, over all elements along an axis."""
    inside = (part.active(tap, 0, part.count) for tap in range(part.taps))
    return sum(stop - start for start, stop in inside)


@dataclass(frozen=True, slots=True)
class PixelRunSettings:
    """The part of a config that is set at run time."""

    depth: int
    panels: int
    lines: int
    by_panels: bool
    rounds: int = 1
    """Rounds, in each of which the filter is packed again."""


class PixelEstimate:
    """Estimates forward and backward-data from the form of the code and the run-time settings."""

    def __init__(self, gather: Gather, machine: CpuLimits) -> None:
        self.gather, self.machine = gather, machine
        self._computed: dict[tuple[PixelForm, int, bool], float] = {}
        self.largest = max(gather.phases, key=lambda p: p[0].taps * p[1].taps * p[2].taps)

    def __call__(self, form: PixelForm, settings: PixelRunSettings) -> float:
        key = form, settings.depth, settings.by_panels
        if key not in self._computed:
            times = (self._computing(form, settings, parts) for parts in self.gather.phases)
            self._computed[key] = sum(times)
        traffic = len(self.gather.phases) * self._traffic(form, settings)
        packing = settings.rounds * self._packing(form, settings)
        return self.gather.groups * (self._computed[key] + packing + traffic)

    def _computing(self, form: PixelForm, settings: PixelRunSettings, parts: AxisParts) -> float:
        """Cycles of the tiles of the busiest thread."""
        gather, lanes = self.gather, form.vector.lanes
        images = gather.n // form.images
        passes = -(-gather.reduced // settings.depth)
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
        pieces = self._panels(form) if settings.by_panels else lines
        return total * share_of(pieces, self.machine.threads)

    def _panels(self, form: PixelForm) -> int:
        return -(-self.gather.columns // form.columns)

    def _packing(self, form: PixelForm, settings: PixelRunSettings) -> float:
        """Cycles of packing the filter, by each thread for itself, from short or long runs of
        memory."""
        gather, filters, item = self.gather, self.gather.filters, form.vector.item_bytes
        taps = gather.most_taps
        block = taps * settings.depth * settings.panels * form.columns * item
        price = _PACKED + _PACKED_BEYOND * min(2.0, block / self.machine.l2)
        if filters.reduced == 1:
            whole = settings.depth >= gather.reduced
            price += _SHORT_RUN / (settings.depth * item * (taps if whole else 1))
        elements = sum(d.taps * h.taps * w.taps for d, h, w in gather.phases)
        elements *= gather.reduced * gather.columns
        if settings.by_panels:
            price *= share_of(self._panels(form), self.machine.threads)
        return elements * price

    def _traffic(self, form: PixelForm, settings: PixelRunSettings) -> float:
        """Cycles of reading the source and writing the output of a phase outside the caches."""
        gather, machine, item = self.gather, self.machine, form.vector.item_bytes
        depth, height, width = self.largest
        panels, passes = self._panels(form), -(-gather.reduced // settings.depth)
        blocks = -(-panels // settings.panels)
        lines = depth.count * height.count * (gather.n // form.images)
        line = form.images * height.step * gather.source.axes[1] * item
        out_line = form.images * width.count * gather.columns * item
        halo = form.images * height.taps * height.spread * gather.source.axes[1] * item
        at_once = min(settings.lines, max(1, lines // settings.rounds))
        block = at_once * (line + out_line) / passes + halo
        far = machine.price(lines * (line + out_line) / settings.rounds)
        read = lines * line * blocks * (far + (settings.panels - 1) * machine.price(block))
        # Writing a narrow stripe of the output brings more of it into the caches than is written.
        stripe = 1.0 + _STRIPE / (min(settings.panels, panels) * form.columns * item)
        written = (2 * passes - 1) * lines * out_line * stripe * far
        panel = gather.most_taps * settings.depth * form.columns * item
        filters = lines / at_once * passes * panels * panel * machine.price(panel * settings.panels)
        return (read + written + filters) / machine.threads


def share_of(pieces: int, threads: int) -> float:
    """The share of the work of the busiest thread."""
    return -(-pieces // threads) / pieces


def vector_of(dtype: str, device: Device) -> VectorType:
    """The widest vector of a device."""
    item = VectorType(dtype, 1).item_bytes
    return VectorType(dtype, max(1, device.vector_bytes // item))


# The filter's gradient.

_FAR_ROW, _FAR_ROWS, _NEAR_ROWS = 12.0, 25.0, 8
"""Writing a row of a tile outside L2, and the surcharge for each of many rows."""
_STREAMED, _SCATTERED = 0.2, 0.6
"""Factors on the price of a byte: strips that fit into L2 are read once, others for every tap."""
_LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, slots=True)
class FilterRunSettings:
    """The part of a config that is set at run time."""

    lines: int
    rows_inside: bool
    images: int
    """Images per round."""


@dataclass(frozen=True, slots=True)
class _BlockedGradient:
    """The blocks of pixels of a gradient, and the cost of a tile in all of them."""

    geometry: Geometry
    form: FilterForm
    settings: FilterRunSettings
    machine: CpuLimits

    @property
    def all_lines(self) -> int:
        return self.geometry.n * self.geometry.result_sizes[0] * self.geometry.result_sizes[1]

    @property
    def count(self) -> int:
        """The number of blocks, each of which adds to the filter."""
        depth, height = self.geometry.result_sizes[:2]
        lines = min(self.settings.lines, self.settings.images * depth * height)
        return -(-self.all_lines // lines)

    def writing(self, rows: int, vectors: int) -> float:
        """Cycles of writing a tile, in all blocks."""
        geometry, item = self.geometry, self.form.vector.item_bytes
        time = TILE + VECTOR * rows * vectors
        if geometry.k * geometry.group_c * geometry.taps * item > self.machine.l2 / 2:
            time += _FAR_ROW * rows + _FAR_ROWS * max(0, rows - _NEAR_ROWS)
        return time * self.count * (1 + (self.count > 1))

    def reading(self, row_bytes: int, column_bytes: int, taps: int) -> float:
        """Cycles of reading for a tile with all its taps, in all blocks."""
        geometry, axes = self.geometry, self.geometry.axes
        item = self.form.vector.item_bytes
        result = self.all_lines * axes[2].result
        image = result * min(axes[1].stride, axes[1].reach) * min(axes[2].stride, axes[2].reach)
        block = (result * geometry.k + image * geometry.c) * item / self.count
        strip = result * (row_bytes + _LINE) + image * column_bytes
        near = self.machine.l2 / 2
        kept = strip / self.count <= near and self._in_reach(result / self.count)
        return (_STREAMED if kept else taps * _SCATTERED) * strip * self.machine.price(block)

    def _in_reach(self, pixels: float) -> bool:
        """Whether L2 can hold strips of `pixels` pixels.

        Pixels that lie a power of two apart share few cache sets.
        """
        item = self.form.vector.item_bytes
        apart = max(_power(self.geometry.c * item), _power(self.geometry.k * item))
        return pixels <= self.machine.l2 / apart


def _power(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number


def filter_time(
    geometry: Geometry, form: FilterForm, settings: FilterRunSettings, machine: CpuLimits
) -> float:
    """Cycles of the gradient with one matrix per tap."""
    blocks = _BlockedGradient(geometry, form, settings, machine)
    item, taps = form.vector.item_bytes, geometry.taps
    height = even_size(geometry.group_k, form.rows)
    pixels = geometry.n
    for axis in geometry.axes:
        pixels *= valid_taps(forward_part(axis))
    total, units = 0.0, 0
    for row_tiles, rows in sizes_of(geometry.group_k, height):
        for column_tiles, columns in sizes_of(geometry.group_c, form.columns):
            vectors = -(-columns // form.vector.lanes)
            inner = tile_step(rows, vectors) * pixels + LOOP * 0.5 * blocks.all_lines * taps
            reading = blocks.reading(rows * item, columns * item, taps)
            time = inner + reading + taps * blocks.writing(rows, vectors)
            total += row_tiles * column_tiles * time
            units += row_tiles * column_tiles * taps
    share = share_of(units * geometry.groups, machine.threads)
    # It is better to read the wider side of a tile only once.
    order = 1.001 if settings.rows_inside == (form.columns > height) else 1.0
    return geometry.groups * total * share * order


def runs_time(
    geometry: Geometry, form: FilterForm, settings: FilterRunSettings, machine: CpuLimits
) -> float:
    """Cycles of the gradient with the channels of the result in vectors."""
    blocks = _BlockedGradient(geometry, form, settings, machine)
    item = form.vector.item_bytes
    above = geometry.taps // geometry.axes[2].filter
    pixels = geometry.n * geometry.result_pixels
    total, units = 0.0, 0
    for row_tiles, rows in sizes_of(row_count(geometry), even_size(row_count(geometry), form.rows)):
        for column_tiles, columns in sizes_of(geometry.group_k, form.columns):
            vectors = -(-columns // form.vector.lanes)
            inner = tile_step(rows, vectors) * pixels + 2 * LOOP * blocks.all_lines
            reading = blocks.reading(columns * item, geometry.c * item, above)
            time = above * (inner + blocks.writing(rows, vectors)) + reading
            total += row_tiles * column_tiles * time
            units += row_tiles * column_tiles * above
    return geometry.groups * total * share_of(units * geometry.groups, machine.threads)
