"""How long an implicit matrix product takes, by arithmetic alone: meant to order configs.

Times are cycles of one thread on a core that starts one multiply-add of whole vectors in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from skipjack.core.device import Device
from skipjack.native.cpu import registers_of
from skipjack.native.ir import VectorType
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.implicit_axes import AxisPart, even, runs
from skipjack.solvers.convolution.implicit_filter_runs import row_count
from skipjack.solvers.convolution.implicit_gather import Gather
from skipjack.solvers.convolution.implicit_pixel_tile import PixelForm
from skipjack.solvers.convolution.implicit_reduction import FilterForm

_UNDER_WAY = 8.0
"""Multiply-adds that must be under way at once to hide their latency."""
_LOAD = 0.04
"""What a load costs that hides behind arithmetic."""
_LOOP, _TILE, _VECTOR = 14.0, 30.0, 2.0
"""An inner loop that is begun, a tile that is begun, a vector of it that is written."""
_PACKED, _PACKED_BEYOND = 0.3, 0.75
"""Packing an element; and what that grows by with the share of L2 that a packed block takes."""
_FAR_ROW, _FAR_ROWS, _NEAR_ROWS = 25.0, 20.0, 8
"""Writing a row of a tile to memory beyond L2, and more for each of many rows."""
_SPILL = 0.3
"""Of a tile that leaves no register for an element."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What an estimate knows of a device."""

    threads: int
    registers: int
    l2: int

    @classmethod
    def of(cls, device: Device) -> Machine:
        """Of a CPU."""
        l2 = device.cache_bytes("L2") or 1 << 20
        return cls(device.units, registers_of(device), l2)

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether a tile's sums, a row of B and an element are in registers."""
        return rows * vectors + vectors + 1 <= self.registers


def step(rows: int, vectors: int) -> float:
    """One step of a tile."""
    if not rows:
        return 0.0
    return max(rows * vectors, _UNDER_WAY, rows + vectors) + _LOAD * (rows + vectors)


def _sizes(extent: int, size: int) -> Iterator[tuple[int, int]]:
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


def pixel_time(gather: Gather, form: PixelForm, walk: PixelWalk, machine: Machine) -> float:
    """Of forward and backward-data."""
    lanes, item = form.vector.lanes, form.vector.item_bytes
    passes = -(-gather.reduced // walk.depth)
    panels = -(-gather.columns // form.columns)
    total = 0.0
    for parts in gather.phases:
        above = valid_taps(parts[0]) * valid_taps(parts[1])
        lines = parts[0].count * parts[1].count * (gather.n // form.images)
        share = _share(panels if walk.by_panels else lines, machine.threads)
        for count, columns in _sizes(gather.columns, form.columns):
            vectors = columns if form.dots else -(-columns // lanes)
            time, tiles, loops = pixel_line(parts[2], form.images, form.pixels, vectors)
            steps = form.depth_of(gather.reduced) / (lanes if form.dots else 1)
            inner = time * steps + _LOOP * loops * passes
            rows = parts[2].count * form.images
            writing = passes * (_TILE * tiles + _VECTOR * rows * vectors * (2 - (passes == 1)))
            images = gather.n // form.images
            total += share * count * (inner * above * images + writing * lines)
        total += _packing(gather, form, walk, machine, parts)
    block = gather.most_taps * walk.depth * walk.panels * form.columns * item
    return gather.groups * total * (1.0 + 0.02 * min(2.0, block / machine.l2))


def _packing(
    gather: Gather,
    form: PixelForm,
    walk: PixelWalk,
    machine: Machine,
    parts: tuple[AxisPart, AxisPart, AxisPart],
) -> float:
    taps = parts[0].taps * parts[1].taps * parts[2].taps
    panel = taps * walk.depth * form.columns * form.vector.item_bytes
    # What is packed again for each panel and what fills L2 both come from further away.
    filled = min(2.0, walk.panels * panel / machine.l2)
    elements = taps * gather.reduced * gather.columns
    share = _share(-(-gather.columns // form.columns), machine.threads) if walk.by_panels else 1.0
    again = max(1, -(-walk.panels * panel // (8 * machine.l2)))
    return share * elements * again * (_PACKED + _PACKED_BEYOND * filled)


def _share(pieces: int, threads: int) -> float:
    """Of the whole that the busiest thread has."""
    return -(-pieces // threads) / pieces


@dataclass(frozen=True, slots=True)
class FilterWalk:
    """What of a config is set at run time."""

    lines: int
    rows_inside: bool


def filter_time(geometry: Geometry, form: FilterForm, walk: FilterWalk, machine: Machine) -> float:
    """Of backward-weights."""
    item, lanes = form.vector.item_bytes, form.vector.lanes
    height = even(geometry.group_k, form.rows)
    all_lines = geometry.n * geometry.result_sizes[0] * geometry.result_sizes[1]
    lines = min(walk.lines, all_lines)
    passes = -(-all_lines // lines)
    pixels = geometry.n * _tap_pixels(geometry)
    out = geometry.k * geometry.group_c * geometry.taps * item
    far = out > machine.l2 / 2
    loops = all_lines * geometry.taps
    total, units = 0.0, 0
    for row_tiles, rows in _sizes(geometry.group_k, height):
        for column_tiles, columns in _sizes(geometry.group_c, form.columns):
            vectors = -(-columns // lanes)
            tiles = row_tiles * column_tiles
            write = _TILE + _VECTOR * rows * vectors
            if far:
                write += _FAR_ROW * rows + _FAR_ROWS * max(0, rows - _NEAR_ROWS)
            inner = step(rows, vectors) * pixels + _LOOP * 0.5 * loops
            total += tiles * (inner + write * geometry.taps * passes * (1 + (passes > 1)))
            units += tiles * geometry.taps
    block = lines * _line_bytes(geometry, item)
    beyond = 0.10 * min(3.0, max(0.0, block / machine.l2 - 0.6))
    # Rows inside: each piece of the image is read once for all rows.
    order = 0.001 if walk.rows_inside == (form.columns > height) else 0.0
    share = _share(units * geometry.groups, machine.threads)
    return geometry.groups * total * share * (1.0 + beyond + order)


def runs_time(geometry: Geometry, form: FilterForm, walk: FilterWalk, machine: Machine) -> float:
    """Of backward-weights where the result's channels lie in vectors."""
    item, lanes = form.vector.item_bytes, form.vector.lanes
    all_rows = row_count(geometry)
    height = even(all_rows, form.rows)
    lines = min(walk.lines, geometry.n * geometry.result_sizes[0] * geometry.result_sizes[1])
    total, units = 0.0, 0
    above = geometry.taps // geometry.axes[2].filter
    pixels = geometry.n * geometry.result_pixels * above
    for row_tiles, rows in _sizes(all_rows, height):
        for column_tiles, columns in _sizes(geometry.group_k, form.columns):
            tiles = row_tiles * column_tiles
            inner = step(rows, -(-columns // lanes)) * pixels
            total += tiles * inner * (1.0 + _LOOP / (geometry.axes[2].result * rows))
            units += tiles * above
    block = lines * _line_bytes(geometry, item)
    beyond = 0.10 * min(3.0, max(0.0, block / machine.l2 - 0.6)) + 0.2 / lines
    share = _share(units * geometry.groups, machine.threads)
    return geometry.groups * total * share * (1.0 + beyond)


def _tap_pixels(geometry: Geometry) -> int:
    """Of all taps, the pixels of one image that they find inside."""
    total = 1
    for axis in geometry.axes:
        part = AxisPart(axis.result, axis.filter, axis.stride, axis.image, -axis.pad, axis.dilation)
        total *= valid_taps(part)
    return total


def _line_bytes(geometry: Geometry, item: int) -> int:
    """Of a line of the result, and the image's that belong to it."""
    height, width = geometry.axes[1:]
    image = width.image * min(height.stride, height.reach) * geometry.c
    return (width.result * geometry.k + image) * item


def vector_of(dtype: str, device: Device) -> VectorType:
    """The widest of a device."""
    item = VectorType(dtype, 1).item_bytes
    return VectorType(dtype, max(1, device.vector_bytes // item))
