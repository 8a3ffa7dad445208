"""Where the pixels and channels of a convolution's arrays lie, for products to read and write.

Under a stride a pointwise convolution has nothing to do with most pixels of the image. Where
channels lie side by side, the others are two levels of evenly spaced rows, mostly; they can be read
and written in place. Else they are copied, some images at a time.
"""

from __future__ import annotations

from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.pointwise_products import Array, Pixels
from skipjack.solvers.loops.copying import Bound, Copy, Walk
from skipjack.solvers.solver import Slot

Level = tuple[int, int, int]
"""How often, and the strides of image and result."""


def channels_of(geometry: Geometry, role: Role) -> tuple[int, int]:
    """Channels of image or result: all, and those of a group."""
    if role == "image":
        return geometry.c, geometry.group_c
    return geometry.k, geometry.group_k


def dense(geometry: Geometry, role: Role, slot: Slot, images: int) -> Array:
    """Image or result with the result's pixels, all of them side by side."""
    channels, in_group = channels_of(geometry, role)
    pixels = geometry.result_pixels
    if geometry.channels_last:
        return Array(slot, Pixels(images * pixels, channels), 1, in_group)
    return Array(slot, Pixels(pixels, 1, images, channels * pixels), pixels, in_group * pixels)


def in_place(geometry: Geometry, images: int) -> tuple[Array, Array] | None:
    """Image and result with the pixels that matter, where these are two levels at most."""
    levels = _levels(geometry, images)
    if len(levels) > 2 or not geometry.channels_last:
        return None
    (times, *apart), (count, *strides) = [(1, 0, 0), *levels][-2:]

    def array(role: Role, at: int) -> Array:
        pixels = Pixels(count, strides[at], times, apart[at])
        return Array(geometry.name(role), pixels, 1, channels_of(geometry, role)[1])

    return array("image", 0), array("result", 1)


def _levels(geometry: Geometry, images: int) -> list[Level]:
    """Pixels of several images where channels lie last, with as few levels as possible."""
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
    """The pixels that matter, as `dense` has them."""
    return Copy(tuple(Walk(*walk) for walk in _walks(geometry, images)))


def spread(geometry: Geometry, images: int) -> Copy:
    """The way back; pixels between stay as they are."""
    return Copy(
        tuple(
            Walk(name, count, source, out) for name, count, out, source in _walks(geometry, images)
        )
    )


def _walks(geometry: Geometry, images: int) -> list[tuple[str, int, int, int]]:
    """Names, extents, strides among the pixels that matter and among all."""
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
    """So many side by side."""
    return Copy((Walk("all", count, 1, 0),), (Bound((), -1, 1),))
