"""A convolution as a gather: which taps read which elements, along one axis and in all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product

from skipjack.operations import Axis, Geometry

# One spatial axis: which taps read what, for runs of elements.
#
# Each element of the output (the result, or the image in backward-data) sums over taps that read
# a *source* (the image, or the result's gradient). A forward axis is one `AxisPart`;
# backward-data with a stride has as many parts as the stride, each with every stride-th element
# and a few taps of its own, so that no tap reads an inserted zero. Within a part the taps are an
# arithmetic progression, read in ascending order of the source.

Span = tuple[int, int]
"""The first index, and the one after the last."""


@dataclass(frozen=True, slots=True)
class AxisPart:
    """Elements of the output that use the same taps.

    Element `i` has index ``first + i * every`` in the output. Its tap `t` is tap ``tap + t *
    tap_step`` of the filter and reads the source at ``i * step + offset + t * spread``; indices
    outside ``range(size)`` are padding.
    """

    count: int
    taps: int
    step: int
    size: int
    offset: int
    spread: int
    tap: int = 0
    tap_step: int = 1
    first: int = 0
    every: int = 1

    @property
    def unpadded(self) -> bool:
        """Whether no tap of any element reads padding."""
        last = (self.count - 1) * self.step + self.offset + (self.taps - 1) * self.spread
        return self.offset >= 0 and last < self.size

    def active(self, tap: int, begin: int, count: int) -> Span:
        """Which of `count` elements from `begin` on read inside the source with this tap."""
        at = self.offset + tap * self.spread
        low = -(at // self.step)
        high = -((at - self.size) // self.step)
        start = min(max(low - begin, 0), count)
        return start, max(start, min(high - begin, count))


def forward_part(axis: Axis) -> AxisPart:
    """The elements of the result, which read the image."""
    return AxisPart(
        axis.result, axis.filter, axis.stride, axis.image, -axis.pad, max(axis.dilation, 1)
    )


def backward_parts(axis: Axis) -> list[AxisPart]:
    """The elements of the image, which read the result's gradient: a part for each residue."""
    parts = []
    for residue in range(min(axis.stride, axis.image)):
        start = residue + axis.pad
        taps = [
            tap for tap in range(axis.filter) if (start - tap * axis.dilation) % axis.stride == 0
        ]
        taps.reverse()
        offsets = [(start - tap * axis.dilation) // axis.stride for tap in taps]
        several = len(taps) > 1
        parts.append(
            AxisPart(
                count=-(-(axis.image - residue) // axis.stride),
                taps=len(taps),
                step=1,
                size=axis.result,
                offset=offsets[0] if taps else 0,
                spread=offsets[1] - offsets[0] if several else 1,
                tap=taps[0] if taps else 0,
                tap_step=taps[1] - taps[0] if several else 1,
                first=residue,
                every=axis.stride,
            )
        )
    return parts


@dataclass(frozen=True, slots=True)
class TileRun:
    """Consecutive tiles with the same number of elements whose taps read padding alike."""

    begin: int
    tiles: int
    elements: int
    """Elements of one tile."""
    active: tuple[Span, ...]
    """For each tap, the elements of a tile that read inside the source."""


def tile_runs(part: AxisPart, tile: int) -> list[TileRun]:
    """All elements in tiles of at most `tile` elements, in order, as equal as possible."""
    size = even_size(part.count, tile)
    tiles = [
        (begin, min(size, part.count - begin), _pattern(part, begin, min(size, part.count - begin)))
        for begin in range(0, part.count, size)
    ]
    found = []
    for (elements, active), group in groupby(tiles, key=lambda each: each[1:]):
        members = list(group)
        found.append(TileRun(members[0][0], len(members), elements, active))
    return found


def even_size(count: int, most: int) -> int:
    """The even size of the fewest parts of at most `most` that cover a count."""
    return -(-count // -(-count // most))


def _pattern(part: AxisPart, begin: int, count: int) -> tuple[Span, ...]:
    return tuple(part.active(tap, begin, count) for tap in range(part.taps))


# Forward and backward-data as one gather: pixels of the output by its channels.
#
# Strides are in elements. Arrays have channels last: the channels of a pixel lie side by side.

AxisParts = tuple[AxisPart, AxisPart, AxisPart]
"""Parts along depth, height and width."""


@dataclass(frozen=True, slots=True)
class PixelStrides:
    """Strides of an array of pixels."""

    image: int
    axes: tuple[int, int, int]
    group: int

    @classmethod
    def channels_last(cls, sizes: tuple[int, int, int], channels: int, groups: int) -> PixelStrides:
        """The strides of a dense array."""
        d, h, w = sizes
        axes = (h * w * channels, w * channels, channels)
        return cls(d * axes[0], axes, channels // groups)


@dataclass(frozen=True, slots=True)
class FilterStrides:
    """Strides of the filter along the axes of the gather."""

    column: int
    reduced: int
    axes: tuple[int, int, int]
    group: int


@dataclass(frozen=True, slots=True)
class Gather:
    """The source, the filter, the output, and the parts of the output that use the same taps."""

    n: int
    groups: int
    reduced: int
    """Channels of a group that are summed over."""
    columns: int
    """Channels of a group that are computed."""
    source: PixelStrides
    filters: FilterStrides
    out: PixelStrides
    phases: tuple[AxisParts, ...]

    @property
    def most_taps(self) -> int:
        """The largest number of taps of a phase."""
        return max(d.taps * h.taps * w.taps for d, h, w in self.phases)


def gather_of(geometry: Geometry) -> Gather:
    """The gather of a convolution that computes the result or the image's gradient."""
    image = PixelStrides.channels_last(geometry.image_sizes, geometry.c, geometry.groups)
    result = PixelStrides.channels_last(geometry.result_sizes, geometry.k, geometry.groups)
    _, y, x = geometry.filter_sizes
    if geometry.channels_last:
        c, axes = 1, (y * x * geometry.group_c, x * geometry.group_c, geometry.group_c)
    else:
        c, axes = geometry.taps, (y * x, x, 1)
    k = geometry.taps * geometry.group_c
    group = k * geometry.group_k
    if geometry.wanted == "result":
        parts = [[forward_part(axis)] for axis in geometry.axes]
        filters = FilterStrides(k, c, axes, group)
        sizes, source, out = (geometry.group_c, geometry.group_k), image, result
    else:
        parts = [backward_parts(axis) for axis in geometry.axes]
        filters = FilterStrides(c, k, axes, group)
        sizes, source, out = (geometry.group_k, geometry.group_c), result, image
    depths, heights, widths = parts
    phases = tuple(product(depths, heights, widths))
    return Gather(geometry.n, geometry.groups, *sizes, source, filters, out, phases)
