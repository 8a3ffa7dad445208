"""Pointwise convolutions as matrix products, in all directions, for arrays of any strides.

Pixels or channels can be the rows of a product. Channels of the filter lie side by side in memory,
and either the channels of a pixel or the pixels of a channel do in the other two arrays, so each
choice has operands that are read in place and others that are turned on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.loops.packed_stage import Groups, Operand, Product, Slices
from skipjack.solvers.solver import Slot

Rows = str
"""``pixels`` or ``channels``."""


def rows_of(geometry: Geometry) -> tuple[Rows, ...]:
    """What may be rows: pixels alone where the channels of each lie side by side."""
    fixed = geometry.channels_last or geometry.wanted == "filter"
    return ("pixels",) if fixed else ("channels", "pixels")


@dataclass(frozen=True, slots=True)
class Pixels:
    """How pixels follow each other: so many, and that several times; strides in elements."""

    count: int
    stride: int
    times: int = 1
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Array:
    """An array of pixels and channels, the latter in groups."""

    slot: Slot
    pixels: Pixels
    channel: int
    """Stride from channel to channel."""
    group: int
    """Stride from group to group."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A pointwise convolution; image and result have the same pixels."""

    wanted: Role
    groups: int
    c: int
    k: int
    """Channels of image and result in one group."""
    image: Array
    result: Array
    filter: Slot

    def product(self, rows: Rows) -> Product:
        """With pixels or channels as rows; where the filter is wanted, channels of the result."""
        if self.wanted == "filter":
            return self._filter()
        return self._by_pixels() if rows == "pixels" else self._by_channels()

    @property
    def _given(self) -> tuple[Array, int]:
        """What is multiplied by the filter, and its channels."""
        return (self.image, self.c) if self.wanted == "result" else (self.result, self.k)

    @property
    def _found(self) -> tuple[Array, int]:
        return (self.result, self.k) if self.wanted == "result" else (self.image, self.c)

    def _weights(self) -> tuple[int, int]:
        """Strides of the filter along the channels that are summed over and that are found."""
        return (1, self.c) if self.wanted == "result" else (self.c, 1)

    def _by_pixels(self) -> Product:
        (given, depth), (found, width) = self._given, self._found
        pixels = given.pixels
        return Product(
            *(self.groups, pixels.count, width, depth),
            Operand(given.slot, given.group, pixels.stride, given.channel),
            Operand(self.filter, self.c * self.k, *self._weights()),
            Operand(found.slot, found.group, found.pixels.stride, found.channel),
            groups=Groups(pixels.times, pixels.apart, found.pixels.apart),
        )

    def _by_channels(self) -> Product:
        (given, depth), (found, height) = self._given, self._found
        pixels, summed, own = given.pixels, *self._weights()
        images = self.groups == 1
        assert images or pixels.times == 1, "a batch is images or groups"
        return Product(
            *(pixels.times if images else self.groups, height, pixels.count, depth),
            Operand(self.filter, 0 if images else self.c * self.k, own, summed),
            Operand(
                given.slot, pixels.apart if images else given.group, given.channel, pixels.stride
            ),
            Operand(
                found.slot,
                found.pixels.apart if images else found.group,
                found.channel,
                found.pixels.stride,
            ),
        )

    def _filter(self) -> Product:
        image, result = self.image, self.result
        pixels = image.pixels
        return Product(
            *(self.groups, self.k, self.c, pixels.count),
            Operand(result.slot, result.group, result.channel, result.pixels.stride),
            Operand(image.slot, image.group, pixels.stride, image.channel),
            Operand(self.filter, self.c * self.k, self.c),
            slices=Slices(pixels.times, result.pixels.apart, pixels.apart),
        )
