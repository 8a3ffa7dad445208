"""Copies that turn a convolution into a pointwise one: patches, and filters to go with them.

A patch is everything that one pixel of the output is summed over: taps of the filter by channels,
in the order in which the filter has them. Forward, and for the gradient of the filter, patches are
of the image. The gradient of the image is summed over patches of the result's; under a stride its
pixels are spread out first, with zeros between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from skipjack.operations.conv_geometry import Axis, Geometry, Role
from skipjack.solvers.convolution.pointwise_arrays import channels_of
from skipjack.solvers.loops.copying import Bound, Copy, Walk

_NAMES = "dhw"


@dataclass(frozen=True, slots=True)
class Line:
    """One axis of patches: a tap of a pixel lies at ``pixel * step + tap * dilation + offset``."""

    pixels: int
    taps: int
    step: int
    dilation: int
    offset: int
    size: int
    """Of what patches are taken from; beyond it is nothing."""


def source_of(geometry: Geometry) -> Role:
    """What patches are taken from."""
    return "result" if geometry.wanted == "image" else "image"


def spread_out(geometry: Geometry) -> bool:
    """Whether zeros must be put between pixels before patches are taken."""
    return geometry.wanted == "image" and any(axis.stride > 1 for axis in geometry.axes)


def spread_sizes(geometry: Geometry) -> tuple[int, ...]:
    """Of the result with zeros between its pixels."""
    return tuple((axis.result - 1) * axis.stride + 1 for axis in geometry.axes)


def lines_of(geometry: Geometry) -> tuple[Line, ...]:
    """Of depth, height and width."""
    return tuple(
        _gradient_line(axis, size) if geometry.wanted == "image" else _line(axis)
        for axis, size in zip(geometry.axes, spread_sizes(geometry), strict=True)
    )


def pixels_of(geometry: Geometry) -> int:
    """How many patches an image has."""
    return prod(line.pixels for line in lines_of(geometry))


def _line(axis: Axis) -> Line:
    return Line(axis.result, axis.filter, axis.stride, axis.dilation, -axis.pad, axis.image)


def _gradient_line(axis: Axis, size: int) -> Line:
    return Line(axis.image, axis.filter, 1, -axis.dilation, axis.pad, size)


def pointwise_of(geometry: Geometry) -> Geometry:
    """The convolution of patches: with taps for channels, and every pixel by itself."""
    lines = lines_of(geometry)
    depth, height, width = (Axis(line.pixels, 1, line.pixels) for line in lines)
    if geometry.wanted == "image":
        k = geometry.k * geometry.taps
        return replace(geometry, k=k, axes=(depth, height, width))
    return replace(geometry, c=geometry.c * geometry.taps, axes=(depth, height, width))


def patches(geometry: Geometry, images: int) -> Copy:
    """Of some images, in the order of the layout: channels last of all, or pixels."""
    lines = lines_of(geometry)
    channels, in_group = channels_of(geometry, source_of(geometry))
    groups = channels // in_group
    sizes = tuple(line.size for line in lines)
    places = _strides((channels, *sizes) if not geometry.channels_last else (*sizes, channels))
    channel, axes = (places[-1], places[:3]) if geometry.channels_last else (places[0], places[1:])
    inside = [("g", groups, in_group * channel)]
    taps = [
        (f"t{name}", line.taps, line.dilation * stride)
        for name, line, stride in zip(_NAMES, lines, axes, strict=True)
    ]
    pixels = [
        (f"o{name}", line.pixels, line.step * stride)
        for name, line, stride in zip(_NAMES, lines, axes, strict=True)
    ]
    each = [("c", in_group, channel)]
    image = [("n", images, channels * prod(sizes))]
    order = (
        [*image, *pixels, *inside, *taps, *each]
        if geometry.channels_last
        else [*image, *inside, *each, *taps, *pixels]
    )
    return Copy(
        _written_in_order(order),
        tuple(_bound(name, line) for name, line in zip(_NAMES, lines, strict=True)),
        source_offset=sum(line.offset * stride for line, stride in zip(lines, axes, strict=True)),
    )


def _bound(name: str, line: Line) -> Bound:
    return Bound(((f"o{name}", line.step), (f"t{name}", line.dilation)), line.offset, line.size)


def gradient_filter(geometry: Geometry, times: int) -> Copy:
    """The filter by what is summed over and by channels of the image; so many copies of it."""
    g = geometry
    last = g.channels_last
    outer = [("times", times, 0), ("g", g.groups, g.group_k * g.group_c * g.taps)]
    k = ("k", g.group_k, g.group_c * g.taps)
    tap = ("t", g.taps, g.group_c if last else 1)
    c = ("c", g.group_c, 1 if last else g.taps)
    return Copy(_written_in_order([*outer, tap, k, c] if last else [*outer, k, tap, c]))


def spread_result(geometry: Geometry, images: int) -> Copy:
    """The result with room between its pixels; what lies there stays as it is."""
    g, last = geometry, geometry.channels_last
    sizes, wide = g.result_sizes, spread_sizes(g)
    source = _strides((*sizes, g.k) if last else (g.k, *sizes))
    out = _strides((*wide, g.k) if last else (g.k, *wide))
    strides = [axis.stride for axis in g.axes]
    steps = [*strides, 1] if last else [1, *strides]
    extents = [*sizes, g.k] if last else [g.k, *sizes]
    names = ["d", "h", "w", "c"] if last else ["c", "d", "h", "w"]
    walks = [
        Walk(name, extent, step * wide_stride, stride)
        for name, extent, step, wide_stride, stride in zip(
            names, extents, steps, out, source, strict=True
        )
    ]
    return Copy((Walk("n", images, g.k * prod(wide), g.k * prod(sizes)), *walks))


def _strides(extents: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(extents[at + 1 :]) for at in range(len(extents)))


def _written_in_order(walks: list[tuple[str, int, int]]) -> tuple[Walk, ...]:
    """Walks of names, extents and strides of the source, that fill the target without gaps."""
    strides = _strides(tuple(extent for _, extent, _ in walks))
    return tuple(
        Walk(name, extent, out, source)
        for (name, extent, source), out in zip(walks, strides, strict=True)
    )
