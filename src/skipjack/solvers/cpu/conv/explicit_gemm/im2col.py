"""Any convolution as a matrix product of patches, which are copied for some images at a time.

A patch holds everything that one pixel of the output is summed over: taps of the filter by
channels, in the filter's order. Forward, and for the gradient of the filter, patches are taken
from the image. The gradient of the image is summed over patches of the result's gradient; if the
convolution has a stride, zeros are inserted between its pixels first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from skipjack.core import Config, Device, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, scratch_slot
from skipjack.operations import Axis, Geometry, Role
from skipjack.solvers.cpu.conv.explicit_gemm.products import (
    Pointwise,
    Rows,
    channels_of,
    dense_array,
    images_at_a_time,
    rounds_of_images,
    rows_of,
    zeros,
)
from skipjack.solvers.cpu.conv.requirements import NOT_DEPTHWISE, Requirement, geometry_of, refusal
from skipjack.solvers.cpu.copy import Bound, Copy, CopyLoop, copy_stage
from skipjack.solvers.cpu.gemm import choice_space, product_stage
from skipjack.solvers.cpu.ir import IRStage, Part, StagedSolver
from skipjack.solvers.solver import Slot

# Copies that turn a convolution into a pointwise one: patches, and the filter in their order.

_NAMES = "dhw"


@dataclass(frozen=True, slots=True)
class PatchAxis:
    """One axis of patches: a tap of a pixel reads ``pixel * step + tap * dilation + offset``."""

    pixels: int
    taps: int
    step: int
    dilation: int
    offset: int
    size: int
    """Size of the array that patches are taken from; elements beyond it are zero."""


def source_of(geometry: Geometry) -> Role:
    """The array that patches are taken from."""
    return "result" if geometry.wanted == "image" else "image"


def needs_inserted_zeros(geometry: Geometry) -> bool:
    """Whether zeros must be inserted between pixels before patches are taken."""
    return geometry.wanted == "image" and any(axis.stride > 1 for axis in geometry.axes)


def sizes_with_zeros(geometry: Geometry) -> tuple[int, ...]:
    """The sizes of the result with zeros between its pixels."""
    return tuple((axis.result - 1) * axis.stride + 1 for axis in geometry.axes)


def patch_axes(geometry: Geometry) -> tuple[PatchAxis, ...]:
    """The axes of depth, height and width."""
    return tuple(
        _gradient_axis(axis, size) if geometry.wanted == "image" else _patch_axis(axis)
        for axis, size in zip(geometry.axes, sizes_with_zeros(geometry), strict=True)
    )


def pixels_of(geometry: Geometry) -> int:
    """The number of patches of an image."""
    return prod(line.pixels for line in patch_axes(geometry))


def _patch_axis(axis: Axis) -> PatchAxis:
    return PatchAxis(axis.result, axis.filter, axis.stride, axis.dilation, -axis.pad, axis.image)


def _gradient_axis(axis: Axis, size: int) -> PatchAxis:
    return PatchAxis(axis.image, axis.filter, 1, -axis.dilation, axis.pad, size)


def pointwise_of(geometry: Geometry) -> Geometry:
    """The pointwise convolution of patches, with taps as channels."""
    lines = patch_axes(geometry)
    depth, height, width = (Axis(line.pixels, 1, line.pixels) for line in lines)
    if geometry.wanted == "image":
        k = geometry.k * geometry.taps
        return replace(geometry, k=k, axes=(depth, height, width))
    return replace(geometry, c=geometry.c * geometry.taps, axes=(depth, height, width))


def patches(geometry: Geometry, images: int) -> Copy:
    """The copy of patches of some images, with channels last or pixels last as in the layout."""
    lines = patch_axes(geometry)
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


def _bound(name: str, line: PatchAxis) -> Bound:
    return Bound(((f"o{name}", line.step), (f"t{name}", line.dilation)), line.offset, line.size)


def gradient_filter(geometry: Geometry, times: int) -> Copy:
    """Copies of the filter for the gradient of the image, `times` times."""
    g = geometry
    last = g.channels_last
    outer = [("times", times, 0), ("g", g.groups, g.group_k * g.group_c * g.taps)]
    k = ("k", g.group_k, g.group_c * g.taps)
    tap = ("t", g.taps, g.group_c if last else 1)
    c = ("c", g.group_c, 1 if last else g.taps)
    return Copy(_written_in_order([*outer, tap, k, c] if last else [*outer, k, tap, c]))


def with_inserted_zeros(geometry: Geometry, images: int) -> Copy:
    """A copy of the result with gaps between its pixels; the gaps are not written."""
    g, last = geometry, geometry.channels_last
    sizes, wide = g.result_sizes, sizes_with_zeros(g)
    source = _strides((*sizes, g.k) if last else (g.k, *sizes))
    out = _strides((*wide, g.k) if last else (g.k, *wide))
    strides = [axis.stride for axis in g.axes]
    steps = [*strides, 1] if last else [1, *strides]
    extents = [*sizes, g.k] if last else [g.k, *sizes]
    names = ["d", "h", "w", "c"] if last else ["c", "d", "h", "w"]
    walks = [
        CopyLoop(name, extent, step * wide_stride, stride)
        for name, extent, step, wide_stride, stride in zip(
            names, extents, steps, out, source, strict=True
        )
    ]
    return Copy((CopyLoop("n", images, g.k * prod(wide), g.k * prod(sizes)), *walks))


def _strides(extents: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(extents[at + 1 :]) for at in range(len(extents)))


def _written_in_order(walks: list[tuple[str, int, int]]) -> tuple[CopyLoop, ...]:
    """Loops that fill the target without gaps, from names, extents and strides of the source."""
    strides = _strides(tuple(extent for _, extent, _ in walks))
    return tuple(
        CopyLoop(name, extent, out, source)
        for (name, extent, source), out in zip(walks, strides, strict=True)
    )


# The solver.

_PATCHES_BYTES = 1 << 21
"""As many images are done at a time as have patches that fit into this size, at least one."""
_MOST_PATCHES = 1 << 26
_MODERATE = Requirement(
    "fewer than 64 Mi elements in the patches of an image",
    lambda g: (g.k if g.wanted == "image" else g.c) * g.taps * pixels_of(g) < _MOST_PATCHES,
)
_NARROW = 8
"""Groups with fewer channels leave most of a tile empty."""


class Im2colSolver(StagedSolver):
    """A product of patches x (taps, channels) with (taps, channels) x channels."""

    name = "im2col"
    algorithm = "GEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts convolutions on CPUs unless the patches of an image are too large."""
        return refusal(problem, device, (NOT_DEPTHWISE, _MODERATE))

    def promise(self, problem: Problem, device: Device) -> float:
        """Low if patches are just pixels, or have mostly inserted zeros."""
        geometry = geometry_of(problem)
        narrow = min(geometry.group_k, geometry.group_c * geometry.taps) < _NARROW
        return 0.0 if geometry.pointwise or narrow or needs_inserted_zeros(geometry) else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The parameters of a product, and the choice of its rows."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        products = {rows: plan.pointwise(rows).product(rows) for rows in rows_of(plan.geometry)}
        return choice_space("rows", products, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        return plan.parts(config, str(config.get("rows", rows_of(plan.geometry)[0])))


class _Plan:
    def __init__(self, geometry: Geometry, dtype: str, device: Device) -> None:
        self.geometry, self.dtype, self.device = geometry, dtype, device
        self.item = ITEM_BYTES[dtype]
        self.like = pointwise_of(geometry)
        self.source = source_of(geometry)

    def images(self, rows: Rows) -> int:
        """The number of images per round."""
        if rows == "channels" and self.geometry.groups > 1:
            return 1
        return images_at_a_time(self.geometry, self._patches_bytes(1), _PATCHES_BYTES)

    def alone(self, rows: Rows) -> bool:
        """Whether each thread runs rounds of its own."""
        threads = self.device.units
        enough = self.geometry.n // self.images(rows) >= threads
        return threads > 1 and enough and self.geometry.wanted != "filter"

    def pointwise(self, rows: Rows) -> Pointwise:
        g, like, images = self.geometry, self.like, self.images(rows)
        slots: dict[str, Slot] = dict(g.names)
        slots[self.source] = scratch_slot("patches", self._patches_bytes(images))
        if g.wanted == "image":
            slots["filter"] = scratch_slot("filter", self._filter_bytes())
        return Pointwise(
            g.wanted,
            *(g.groups, like.group_c, like.group_k),
            dense_array(like, "image", slots["image"], images),
            dense_array(like, "result", slots["result"], images),
            slots["filter"],
        )

    def parts(self, config: Config, rows: Rows) -> list[Part]:
        """Stages that run once, then the rounds."""
        g, images = self.geometry, self.images(rows)
        threads = self.device.units if self.alone(rows) else 1
        device = replace(self.device, units=1) if threads > 1 else self.device
        pointwise = self.pointwise(rows)
        product = product_stage(pointwise.product(rows), self.dtype, device, config)
        source: Slot = g.name(self.source)
        found = scratch_slot("patches", self._patches_bytes(images))
        inside: list[IRStage] = []
        if needs_inserted_zeros(g):
            wide = scratch_slot("spread", self._spread_bytes(images))
            inside.append(self._copy(with_inserted_zeros(g, images), source, wide, device))
            source = wide
        inside += [self._copy(patches(g, images), source, found, device), product]
        rounds = rounds_of_images(g, inside, images, self.item, threads)
        return [*self._before(images, threads), *rounds]

    def _before(self, images: int, threads: int) -> list[Part]:
        """Stages before all rounds; once for each thread if threads run rounds of their own."""
        g, parts = self.geometry, list[Part]()
        if g.wanted == "image":
            room = scratch_slot("filter", threads * self._filter_bytes())
            copy = gradient_filter(g, threads)
            parts.append(self._copy(copy, g.name("filter"), room, self.device))
        if needs_inserted_zeros(g):
            room = scratch_slot("spread", threads * self._spread_bytes(images))
            count = threads * self._spread_bytes(images) // self.item
            parts.append(self._copy(zeros(count), g.name("filter"), room, self.device))
        return parts

    def _patches_bytes(self, images: int) -> int:
        like = self.like
        channels = like.k if self.source == "result" else like.c
        return images * channels * like.result_pixels * self.item

    def _spread_bytes(self, images: int) -> int:
        return images * self.geometry.k * prod(sizes_with_zeros(self.geometry)) * self.item

    def _filter_bytes(self) -> int:
        return prod(self.geometry.shape("filter")) * self.item

    def _copy(self, copy: Copy, source: Slot, out: Slot, device: Device) -> IRStage:
        return copy_stage(copy, source, out, self.dtype, device)
