"""How long an implicit matrix product that computes the filter's gradient takes, by arithmetic.

It is meant to order configs. Times are cycles of one thread, as in `implicit_estimate`.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.implicit_axes import even, forward_part
from skipjack.solvers.convolution.implicit_estimate import (
    LOOP,
    TILE,
    VECTOR,
    Machine,
    share_of,
    sizes_of,
    step,
    valid_taps,
)
from skipjack.solvers.convolution.implicit_filter_runs import row_count
from skipjack.solvers.convolution.implicit_reduction import FilterForm

_FAR_ROW, _FAR_ROWS, _NEAR_ROWS = 12.0, 25.0, 8
"""Writing a row of a tile to memory beyond L2, and more for each of many rows."""
_STREAMED, _SCATTERED = 0.2, 0.6
"""Of the price of a byte: strips that fit into L2 are read once, others for every tap."""
_LINE = 64
"""Bytes that memory comes in."""


@dataclass(frozen=True, slots=True)
class FilterWalk:
    """What of a config is set at run time."""

    lines: int
    rows_inside: bool
    images: int
    """Of a round."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """Blocks of pixels and what a thread does in all of them."""

    geometry: Geometry
    form: FilterForm
    walk: FilterWalk
    machine: Machine

    @property
    def all_lines(self) -> int:
        return self.geometry.n * self.geometry.result_sizes[0] * self.geometry.result_sizes[1]

    @property
    def count(self) -> int:
        """Blocks, each of which adds to the filter."""
        depth, height = self.geometry.result_sizes[:2]
        lines = min(self.walk.lines, self.walk.images * depth * height)
        return -(-self.all_lines // lines)

    def writing(self, rows: int, vectors: int) -> float:
        """Of a tile, in all blocks."""
        geometry, item = self.geometry, self.form.vector.item_bytes
        time = TILE + VECTOR * rows * vectors
        if geometry.k * geometry.group_c * geometry.taps * item > self.machine.l2 / 2:
            time += _FAR_ROW * rows + _FAR_ROWS * max(0, rows - _NEAR_ROWS)
        return time * self.count * (1 + (self.count > 1))

    def reading(self, row_bytes: int, column_bytes: int, taps: int) -> float:
        """Of a tile with all its taps, in all blocks."""
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
        """Whether L2 has places for strips of so many pixels.

        Pixels that lie a power of two apart share few places.
        """
        item = self.form.vector.item_bytes
        apart = max(_power(self.geometry.c * item), _power(self.geometry.k * item))
        return pixels <= self.machine.l2 / apart


def _power(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number


def filter_time(geometry: Geometry, form: FilterForm, walk: FilterWalk, machine: Machine) -> float:
    """Of a matrix for each tap."""
    blocks = _Pass(geometry, form, walk, machine)
    item, taps = form.vector.item_bytes, geometry.taps
    height = even(geometry.group_k, form.rows)
    pixels = geometry.n
    for axis in geometry.axes:
        pixels *= valid_taps(forward_part(axis))
    total, units = 0.0, 0
    for row_tiles, rows in sizes_of(geometry.group_k, height):
        for column_tiles, columns in sizes_of(geometry.group_c, form.columns):
            vectors = -(-columns // form.vector.lanes)
            inner = step(rows, vectors) * pixels + LOOP * 0.5 * blocks.all_lines * taps
            reading = blocks.reading(rows * item, columns * item, taps)
            time = inner + reading + taps * blocks.writing(rows, vectors)
            total += row_tiles * column_tiles * time
            units += row_tiles * column_tiles * taps
    share = share_of(units * geometry.groups, machine.threads)
    # The wider side of a tile is better fetched once.
    order = 1.001 if walk.rows_inside == (form.columns > height) else 1.0
    return geometry.groups * total * share * order


def runs_time(geometry: Geometry, form: FilterForm, walk: FilterWalk, machine: Machine) -> float:
    """Of a matrix for each tap above the width, with the result's channels in vectors."""
    blocks = _Pass(geometry, form, walk, machine)
    item = form.vector.item_bytes
    above = geometry.taps // geometry.axes[2].filter
    pixels = geometry.n * geometry.result_pixels
    total, units = 0.0, 0
    for row_tiles, rows in sizes_of(row_count(geometry), even(row_count(geometry), form.rows)):
        for column_tiles, columns in sizes_of(geometry.group_k, form.columns):
            vectors = -(-columns // form.vector.lanes)
            inner = step(rows, vectors) * pixels + 2 * LOOP * blocks.all_lines
            reading = blocks.reading(columns * item, geometry.c * item, above)
            time = above * (inner + blocks.writing(rows, vectors)) + reading
            total += row_tiles * column_tiles * time
            units += row_tiles * column_tiles * above
    return geometry.groups * total * share_of(units * geometry.groups, machine.threads)
