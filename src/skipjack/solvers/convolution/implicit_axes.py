"""One spatial axis of a convolution as a gather: which taps read what, for runs of elements.

Each element of what is wanted (the result, or the image in backward-data) sums over taps that read
a *source* (the image, or the result's gradient). A forward axis is one `AxisPart`; backward-data
with a stride falls into as many parts as the stride is, each of every so-many-th element and with
its own few taps, so that no tap ever meets an inserted zero. Within a part the taps are an
arithmetic progression, read in ascending order of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from skipjack.operations.conv_geometry import Axis

Span = tuple[int, int]
"""First and one behind the last."""


@dataclass(frozen=True, slots=True)
class AxisPart:
    """Elements of the wanted array that see the same taps.

    Element `i` is the wanted array's number ``first + i * every``. Its tap `t` is the filter's
    number ``tap + t * tap_step`` and reads the source at ``i * step + offset + t * spread``; what
    lies outside of ``range(size)`` is padding.
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
        """Whether no tap of any element falls on padding."""
        last = (self.count - 1) * self.step + self.offset + (self.taps - 1) * self.spread
        return self.offset >= 0 and last < self.size

    def active(self, tap: int, begin: int, count: int) -> Span:
        """Which of `count` elements from `begin` on find this tap inside of the source."""
        at = self.offset + tap * self.spread
        low = -(at // self.step)
        high = -((at - self.size) // self.step)
        start = min(max(low - begin, 0), count)
        return start, max(start, min(high - begin, count))


def forward_part(axis: Axis) -> AxisPart:
    """The result's elements, which read the image."""
    return AxisPart(
        axis.result, axis.filter, axis.stride, axis.image, -axis.pad, max(axis.dilation, 1)
    )


def backward_parts(axis: Axis) -> list[AxisPart]:
    """The image's elements, which read the result's gradient: a part for each residue."""
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
class Run:
    """Some tiles of equally many elements side by side whose taps meet padding alike."""

    begin: int
    tiles: int
    elements: int
    """Of one tile."""
    active: tuple[Span, ...]
    """For each tap, the elements of a tile that find it inside of the source."""


def runs(part: AxisPart, tile: int) -> list[Run]:
    """All elements in tiles of at most so many, in order; tiles are as equal as can be."""
    size = even(part.count, tile)
    tiles = [
        (begin, min(size, part.count - begin), _pattern(part, begin, min(size, part.count - begin)))
        for begin in range(0, part.count, size)
    ]
    found = []
    for (elements, active), group in groupby(tiles, key=lambda each: each[1:]):
        members = list(group)
        found.append(Run(members[0][0], len(members), elements, active))
    return found


def even(count: int, most: int) -> int:
    """The size of as few pieces as cover a count with at most so many each, made even."""
    return -(-count // -(-count // most))


def _pattern(part: AxisPart, begin: int, count: int) -> tuple[Span, ...]:
    return tuple(part.active(tap, begin, count) for tap in range(part.taps))
