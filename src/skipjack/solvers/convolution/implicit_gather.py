"""Forward and backward-data as one gather: pixels of the wanted array by channels of it.

Strides are in elements. Arrays are channels last: a pixel's channels lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.implicit_axes import AxisPart, backward_parts, forward_part

Parts = tuple[AxisPart, AxisPart, AxisPart]
"""Depth, height, width."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Strides of an array of pixels."""

    image: int
    axes: tuple[int, int, int]
    group: int

    @classmethod
    def channels_last(cls, sizes: tuple[int, int, int], channels: int, groups: int) -> Pixels:
        """Dense."""
        d, h, w = sizes
        axes = (h * w * channels, w * channels, channels)
        return cls(d * axes[0], axes, channels // groups)


@dataclass(frozen=True, slots=True)
class Filters:
    """Strides of the filter, by what its axes are here."""

    column: int
    reduced: int
    axes: tuple[int, int, int]
    group: int


@dataclass(frozen=True, slots=True)
class Gather:
    """What is read, what is written, and the parts that see the same taps each."""

    n: int
    groups: int
    reduced: int
    """Channels of a group that are summed over."""
    columns: int
    """Channels of a group that are computed."""
    source: Pixels
    filters: Filters
    out: Pixels
    phases: tuple[Parts, ...]

    @property
    def most_taps(self) -> int:
        """Of a phase."""
        return max(d.taps * h.taps * w.taps for d, h, w in self.phases)


def gather_of(geometry: Geometry) -> Gather:
    """Of a convolution whose result or image is wanted."""
    image = Pixels.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
    result = Pixels.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
    _, y, x = geometry.filter_sizes
    if geometry.channels_last:
        c, axes = 1, (y * x * geometry.group_c, x * geometry.group_c, geometry.group_c)
    else:
        c, axes = geometry.taps, (y * x, x, 1)
    k = geometry.taps * geometry.group_c
    group = k * geometry.group_k
    if geometry.wanted == "result":
        parts = [[forward_part(axis)] for axis in geometry.axes]
        filters = Filters(k, c, axes, group)
        sizes, source, out = (geometry.group_c, geometry.group_k), image, result
    else:
        parts = [backward_parts(axis) for axis in geometry.axes]
        filters = Filters(c, k, axes, group)
        sizes, source, out = (geometry.group_k, geometry.group_c), result, image
    depths, heights, widths = parts
    phases = tuple(product(depths, heights, widths))
    return Gather(geometry.n, geometry.groups, *sizes, source, filters, out, phases)
