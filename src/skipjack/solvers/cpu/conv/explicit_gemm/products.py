"""Pointwise convolutions as matrix products, in all directions, for arrays of any strides.

Pixels or channels can be the rows of a product. The channels of the filter lie side by side in
memory, and in the other two arrays either the channels of a pixel or the pixels of a channel do,
so each choice reads some operands in place and transposes others on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from skipjack.operations import Geometry, Role
from skipjack.solvers.cpu.copy import Bound, Copy, CopyLoop
from skipjack.solvers.cpu.gemm import ACCUMULATE, GemmProduct, Groups, Operand, Slices
from skipjack.solvers.cpu.ir import IRStage, Part, Rounds
from skipjack.solvers.solver import Slot

# The products.

Rows = str
"""``pixels`` or ``channels``."""


def rows_of(geometry: Geometry) -> tuple[Rows, ...]:
    """The choices of rows: only pixels if the channels of each pixel lie side by side."""
    fixed = geometry.channels_last or geometry.wanted == "filter"
    return ("pixels",) if fixed else ("channels", "pixels")


@dataclass(frozen=True, slots=True)
class PixelLevels:
    """The strides of pixels in two levels: `count` pixels, `times` times; in elements."""

    count: int
    stride: int
    times: int = 1
    apart: int = 0


@dataclass(frozen=True, slots=True)
class ChannelArray:
    """An array of pixels and channels, with channels in groups."""

    slot: Slot
    pixels: PixelLevels
    channel: int
    """Stride between channels."""
    group: int
    """Stride between groups."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A pointwise convolution; image and result have the same number of pixels."""

    wanted: Role
    groups: int
    c: int
    k: int
    """Channels of image and result in one group."""
    image: ChannelArray
    result: ChannelArray
    filter: Slot

    def product(self, rows: Rows) -> GemmProduct:
        """The product with pixels or channels as rows; for the filter, channels of the result."""
        if self.wanted == "filter":
            return self._filter()
        return self._by_pixels() if rows == "pixels" else self._by_channels()

    @property
    def _given(self) -> tuple[ChannelArray, int]:
        """The array that is multiplied by the filter, and its channels."""
        return (self.image, self.c) if self.wanted == "result" else (self.result, self.k)

    @property
    def _found(self) -> tuple[ChannelArray, int]:
        return (self.result, self.k) if self.wanted == "result" else (self.image, self.c)

    def _weights(self) -> tuple[int, int]:
        """Strides of the filter along the channels that are summed over and that are computed."""
        return (1, self.c) if self.wanted == "result" else (self.c, 1)

    def _by_pixels(self) -> GemmProduct:
        (given, depth), (found, width) = self._given, self._found
        pixels = given.pixels
        return GemmProduct(
            *(self.groups, pixels.count, width, depth),
            Operand(given.slot, given.group, pixels.stride, given.channel),
            Operand(self.filter, self.c * self.k, *self._weights()),
            Operand(found.slot, found.group, found.pixels.stride, found.channel),
            groups=Groups(pixels.times, pixels.apart, found.pixels.apart),
        )

    def _by_channels(self) -> GemmProduct:
        (given, depth), (found, height) = self._given, self._found
        pixels, summed, own = given.pixels, *self._weights()
        images = self.groups == 1
        assert images or pixels.times == 1, "a batch is images or groups"
        return GemmProduct(
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

    def _filter(self) -> GemmProduct:
        image, result = self.image, self.result
        pixels = image.pixels
        return GemmProduct(
            *(self.groups, self.k, self.c, pixels.count),
            Operand(result.slot, result.group, result.channel, result.pixels.stride),
            Operand(image.slot, image.group, pixels.stride, image.channel),
            Operand(self.filter, self.c * self.k, self.c),
            slices=Slices(pixels.times, result.pixels.apart, pixels.apart),
        )


# Where the pixels and channels of the arrays lie.
#
# If it has a stride, a pointwise convolution does not use most pixels of the image. With channels
# last, the others are usually two levels of evenly spaced rows, which can be read and written in
# place. Otherwise they are copied, some images at a time.

Level = tuple[int, int, int]
"""A count, and the strides of image and result."""


def channels_of(geometry: Geometry, role: Role) -> tuple[int, int]:
    """Channels of image or result: all, and of one group."""
    if role == "image":
        return geometry.c, geometry.group_c
    return geometry.k, geometry.group_k


def dense_array(geometry: Geometry, role: Role, slot: Slot, images: int) -> ChannelArray:
    """The image or the result with the result's pixels, all side by side."""
    channels, in_group = channels_of(geometry, role)
    pixels = geometry.result_pixels
    if geometry.channels_last:
        return ChannelArray(slot, PixelLevels(images * pixels, channels), 1, in_group)
    return ChannelArray(
        slot, PixelLevels(pixels, 1, images, channels * pixels), pixels, in_group * pixels
    )


def arrays_in_place(geometry: Geometry, images: int) -> tuple[ChannelArray, ChannelArray] | None:
    """Image and result with the used pixels in place; None if these have more than two levels."""
    levels = _levels(geometry, images)
    if len(levels) > 2 or not geometry.channels_last:
        return None
    (times, *apart), (count, *strides) = [(1, 0, 0), *levels][-2:]

    def array(role: Role, at: int) -> ChannelArray:
        pixels = PixelLevels(count, strides[at], times, apart[at])
        return ChannelArray(geometry.name(role), pixels, 1, channels_of(geometry, role)[1])

    return array("image", 0), array("result", 1)


def _levels(geometry: Geometry, images: int) -> list[Level]:
    """The pixels of several images with channels last, in as few levels as possible."""
    image, result = geometry.c, geometry.k
    levels: list[Level] = []
    for axis in reversed(geometry.axes):
        levels.append((axis.result, axis.stride * image, result))
        image, result = image * axis.image, result * axis.result
    levels.append((images, image, result))
    joined: list[Level] = []
    for count, *strides in levels:
        if count == 1:
            continue
        if joined and strides == [joined[-1][0] * stride for stride in joined[-1][1:]]:
            joined[-1] = (joined[-1][0] * count, *joined[-1][1:])
        else:
            joined.append((count, strides[0], strides[1]))
    return list(reversed(joined)) or [(1, geometry.c, geometry.k)]


def subsampled(geometry: Geometry, images: int) -> Copy:
    """A copy of the used pixels, in the layout of `dense_array`."""
    return Copy(tuple(CopyLoop(*walk) for walk in _walks(geometry, images)))


def spread(geometry: Geometry, images: int) -> Copy:
    """The reverse copy; pixels between are not written."""
    return Copy(
        tuple(
            CopyLoop(name, count, source, out)
            for name, count, out, source in _walks(geometry, images)
        )
    )


def _walks(geometry: Geometry, images: int) -> list[tuple[str, int, int, int]]:
    """Names, extents, strides among the used pixels and among all pixels."""
    last = geometry.channels_last
    few = every = geometry.c if last else 1
    walks = []
    for name, axis in zip("whd", reversed(geometry.axes), strict=True):
        walks.append((name, axis.result, few, every * axis.stride))
        few, every = few * axis.result, every * axis.image
    walks.append(("c", geometry.c, 1, 1) if last else ("c", geometry.c, few, every))
    if not last:
        few, every = few * geometry.c, every * geometry.c
    return [*walks, ("n", images, few, every)]


def zeros(count: int) -> Copy:
    """A copy that writes `count` contiguous zeros."""
    return Copy((CopyLoop("all", count, 1, 0),), (Bound((), -1, 1),))


# Rounds: stages that are repeated for a few images at a time, so that scratch memory stays
# small.


def images_at_a_time(geometry: Geometry, image_bytes: int, room_bytes: int) -> int:
    """The most images per round that fit `room_bytes`, at least one, with all rounds alike."""
    fitting = max(1, room_bytes // image_bytes)
    return max(n for n in range(1, geometry.n + 1) if geometry.n % n == 0 and n <= fitting)


def rounds_of_images(
    geometry: Geometry, stages: Sequence[IRStage], images: int, item_bytes: int, threads: int = 1
) -> list[Part]:
    """Stages for `images` images, repeated until all are done; gradients are added up."""
    if images == geometry.n:
        return list(stages)
    roles: tuple[Role, ...] = ("image", "result")
    moves: dict[Slot, int] = {
        geometry.name(role): images * prod(geometry.shape(role)[1:]) * item_bytes for role in roles
    }
    adds = geometry.wanted == "filter"
    moving = tuple(_moving(stage, moves, adds) for stage in stages)
    return [Rounds(geometry.n // images, moving, threads)]


def _moving(stage: IRStage, moves: dict[Slot, int], adds: bool) -> IRStage:
    """A stage whose arrays move from round to round."""
    found = {at: moves[slot] for at, slot in enumerate(stage.slots) if slot in moves}
    if adds and len(stage.slots) > ACCUMULATE:
        # 0 in the first round, which overwrites; more in the others, which add.
        found[ACCUMULATE] = 1
    return replace(stage, moves=found)
