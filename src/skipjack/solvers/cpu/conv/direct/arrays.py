"""The arrays of a direct convolution: read in place, or copied into the layout of the loops.

The loops need channels last, padding with zeros, and filters in panels (`nests`). Arrays that have
this layout already are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from skipjack.core import Device, Tensor
from skipjack.native import ITEM_BYTES, scratch_slot
from skipjack.operations import OUT, Axis, Geometry, Role
from skipjack.solvers.cpu.conv.direct.nests import (
    Panels,
    by_group,
    merges_taps,
    result_margins,
    tap_phases,
)
from skipjack.solvers.cpu.copy import OUT_SLOT, SOURCE_SLOT, Bound, Copy, CopyLoop, copy_stage
from skipjack.solvers.cpu.ir import IRStage
from skipjack.solvers.solver import Slot

_PIXELS = ("d", "h", "w")


@dataclass(frozen=True, slots=True)
class PlacedArray:
    """An array in the layout of the loops, with the copies that fill or store it."""

    tensor: Tensor
    slot: Slot
    move: int = 0
    """Bytes from the images of one round to those of the next, if it is used in place."""
    copies: tuple[IRStage, ...] = ()
    """Stages that fill it before the loops, or store it after them."""


@dataclass(frozen=True, slots=True)
class ArrayContext:
    """What copies depend on: the arrays of the problem, and the number of images per round."""

    geometry: Geometry
    images: int
    dtype: str
    device: Device
    threads: int

    def copy(self, copy: Copy, source: Slot, out: Slot, moves: dict[int, int]) -> IRStage:
        """A copy as a stage; `moves` has entries for `SOURCE_SLOT` and `OUT_SLOT`."""
        stage = copy_stage(copy, source, out, self.dtype, self.device, self.threads)
        return replace(stage, moves={end: move for end, move in moves.items() if move})

    def scratch(self, name: str, shape: Sequence[int]) -> Slot:
        """Scratch memory for an array between stages."""
        return scratch_slot(name, prod(shape) * ITEM_BYTES[self.dtype])

    def stored(self, role: Role) -> tuple[Tensor, dict[str, int], int]:
        """The images or results of a round with channels last, their strides by letter, their
        bytes."""
        sizes, channels = _sizes(self.geometry, role)
        tensor = Tensor(role, (self.images, *sizes, channels))
        pixels = prod(sizes)
        if self.geometry.channels_last:
            strides = dict(zip(("n", *_PIXELS, "c"), tensor.strides, strict=True))
        else:
            apart = Tensor(role, sizes).strides
            strides = {"n": channels * pixels, **dict(zip(_PIXELS, apart, strict=True))}
            strides["c"] = pixels
        return tensor, strides, tensor.size * ITEM_BYTES[self.dtype]


def _sizes(geometry: Geometry, role: Role) -> tuple[tuple[int, int, int], int]:
    if role == "image":
        return geometry.image_sizes, geometry.c
    return geometry.result_sizes, geometry.k


def compacted(geometry: Geometry) -> Geometry:
    """The geometry after a copy that skips pixels on strided axes with a single tap."""

    def axis(each: Axis) -> Axis:
        if each.filter > 1 or each.pad or each.stride == 1:
            return each
        return Axis(each.result, 1, each.result)

    depth, height, width = (axis(each) for each in geometry.axes)
    return replace(geometry, axes=(depth, height, width))


def read_image(context: ArrayContext) -> tuple[PlacedArray, Geometry]:
    """The image with its padding, and the geometry that the loops then use."""
    geometry = context.geometry
    tensor, strides, move = context.stored("image")
    pads = [(axis.pad, max(0, axis.pad_after)) for axis in geometry.axes]
    if geometry.channels_last and not any(map(any, pads)):
        return PlacedArray(tensor, geometry.name("image"), move), geometry
    seen = compacted(geometry)
    sizes = [axis.padded for axis in seen.axes]
    steps = [old.stride // new.stride for old, new in zip(geometry.axes, seen.axes, strict=True)]
    padded = Tensor("image", (context.images, *sizes, geometry.c))
    slot = context.scratch("image", padded.shape)
    copy = _pixels(padded, strides, [pad for pad, _ in pads], geometry.image_sizes, steps)
    stage = context.copy(copy, geometry.name("image"), slot, {SOURCE_SLOT: move})
    return PlacedArray(padded, slot, 0, (stage,)), seen


def read_result(context: ArrayContext) -> PlacedArray:
    """The result; with zeros around it if the gradient of the image is computed."""
    geometry = context.geometry
    tensor, strides, move = context.stored("result")
    margins = [(0, 0)] * 3
    if geometry.wanted == "image":
        margins = [result_margins(axis) for axis in geometry.axes]
    if geometry.channels_last and not any(map(any, margins)):
        return PlacedArray(tensor, geometry.name("result"), move)
    pairs = zip(margins, geometry.result_sizes, strict=True)
    sizes = [before + size + after for (before, after), size in pairs]
    padded = Tensor("result", (context.images, *sizes, geometry.k))
    slot = context.scratch("result", padded.shape)
    before = [each for each, _ in margins]
    copy = _pixels(padded, strides, before, geometry.result_sizes, [1, 1, 1])
    stage = context.copy(copy, geometry.name("result"), slot, {SOURCE_SLOT: move})
    return PlacedArray(padded, slot, 0, (stage,))


def _pixels(
    padded: Tensor,
    strides: dict[str, int],
    before: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int],
) -> Copy:
    """A copy from stored images to padded ones with channels last."""
    names = ("n", *_PIXELS, "c")
    step = dict(zip(_PIXELS, steps, strict=True))
    walks = tuple(
        CopyLoop(name, extent, out, strides[name] * step.get(name, 1))
        for name, extent, out in zip(names, padded.shape, padded.strides, strict=True)
    )
    bounds = tuple(
        Bound(((name, each),), -pad, size)
        for name, each, pad, size, extent in zip(
            _PIXELS, steps, before, sizes, padded.shape[1:4], strict=True
        )
        if pad or (extent - 1) * each >= size
    )
    offset = -sum(pad * strides[name] for name, pad in zip(_PIXELS, before, strict=True))
    return Copy(walks, bounds, source_offset=offset)


def read_filter(context: ArrayContext, panels: Panels, *, by_panel: bool = False) -> PlacedArray:
    """The filter in panels of the output's channels: all panels, or one panel per round."""
    geometry = context.geometry
    taps = geometry.filter_sizes
    strides = _filter_strides(geometry)
    count = 1 if by_panel else panels.count
    if by_group(geometry):
        tensor, inner = Tensor("filter", (count, *taps, panels.width)), "k"
        sources: dict[str, int] = {}
        names: tuple[str, ...] = ("o", *_PIXELS, "v")
    else:
        # The channels of the result are those of the output, or those that are summed over.
        inner, outer = ("k", "c") if geometry.wanted == "result" else ("c", "k")
        reduced = geometry.group_c if outer == "c" else geometry.group_k
        tensor = Tensor("filter", (geometry.groups, count, *taps, reduced, panels.width))
        sources = {"g": geometry.group_k * strides["k"], "r": strides[outer]}
        names = ("g", "o", *_PIXELS, "r", "v")
    sources |= {**strides, "o": panels.width * strides[inner], "v": strides[inner]}
    walks = tuple(
        CopyLoop(name, extent, out, sources[name])
        for name, extent, out in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    slot = context.scratch("filter", tensor.shape)
    moves = {SOURCE_SLOT: sources["o"] * ITEM_BYTES[context.dtype]} if by_panel else {}
    return PlacedArray(
        tensor, slot, 0, (context.copy(Copy(walks), geometry.name("filter"), slot, moves),)
    )


def _filter_strides(geometry: Geometry) -> dict[str, int]:
    """The strides of the stored filter, by letter."""
    taps = geometry.filter_sizes
    inside = Tensor("filter", taps).strides
    if geometry.channels_last:
        last = {"c": 1, "k": prod(taps) * geometry.group_c}
        return last | {n: s * geometry.group_c for n, s in zip(_PIXELS, inside, strict=True)}
    first = {"c": prod(taps), "k": prod(taps) * geometry.group_c}
    return first | dict(zip(_PIXELS, inside, strict=True))


def write_pixels(context: ArrayContext) -> PlacedArray:
    """The output image or result: in place, or in scratch memory that is transposed afterwards."""
    wanted = context.geometry.wanted
    tensor, strides, move = context.stored(wanted)
    tensor = Tensor(OUT, tensor.shape)
    if context.geometry.channels_last:
        return PlacedArray(tensor, OUT, move)
    slot = context.scratch(OUT, tensor.shape)
    names = ("n", *_PIXELS, "c")
    walks = tuple(
        CopyLoop(name, extent, strides[name], source)
        for name, extent, source in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    return PlacedArray(tensor, slot, 0, (context.copy(Copy(walks), slot, OUT, {OUT_SLOT: move}),))


def writes_filter_in_place(geometry: Geometry) -> bool:
    """Whether the loops compute the filter in its stored order."""
    if by_group(geometry) or merges_taps(geometry):
        return False
    return geometry.channels_last or geometry.taps == 1


def write_filter(context: ArrayContext, kernels: int | None = None) -> PlacedArray:
    """The output filter: in place, or in scratch memory that is transposed afterwards.

    With `kernels`, only that many channels of the result per round.
    """
    geometry = context.geometry
    taps = geometry.filter_sizes
    strides = _filter_strides(geometry)
    if merges_taps(geometry):
        tensor = Tensor(OUT, (*taps, geometry.c, geometry.k))
        names: tuple[str, ...] = (*_PIXELS, "c", "k")
    elif by_group(geometry):
        tensor, names = Tensor(OUT, (*taps, geometry.groups)), (*_PIXELS, "k")
    else:
        tensor = Tensor(OUT, (kernels or geometry.k, *taps, geometry.group_c))
        names = ("k", *_PIXELS, "c")
        if writes_filter_in_place(geometry):
            return PlacedArray(tensor, OUT)
    slot = context.scratch(OUT, tensor.shape)
    walks = tuple(
        CopyLoop(name, extent, strides[name], source)
        for name, extent, source in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    move = kernels * strides["k"] * ITEM_BYTES[context.dtype] if kernels else 0
    return PlacedArray(tensor, slot, 0, (context.copy(Copy(walks), slot, OUT, {OUT_SLOT: move}),))


def zeros(context: ArrayContext, out: PlacedArray) -> list[IRStage]:
    """Stages that clear what no nest writes: pixels of the image that no tap reaches."""
    geometry, stages = context.geometry, []
    if geometry.wanted == "filter":
        walks = _plain_walks(out.tensor)
        return [_cleared(context, walks, 0, out)]
    for combination in product(*(tap_phases(axis) for axis in geometry.axes)):
        if all(phase.taps for phase in combination):
            continue
        first, *strides, last = out.tensor.strides
        pixels = [
            CopyLoop(name, phase.count, stride * phase.stride, 0)
            for name, phase, stride in zip(_PIXELS, combination, strides, strict=True)
        ]
        offset = sum(
            phase.first * stride for phase, stride in zip(combination, strides, strict=True)
        )
        walks = (
            CopyLoop("n", context.images, first, 0),
            *pixels,
            CopyLoop("c", out.tensor.shape[-1], last, 0),
        )
        stages.append(_cleared(context, walks, offset, out))
    return stages


def _plain_walks(tensor: Tensor) -> tuple[CopyLoop, ...]:
    return tuple(
        CopyLoop(f"i{at}", extent, stride, 0)
        for at, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True))
    )


def _cleared(
    context: ArrayContext, walks: tuple[CopyLoop, ...], offset: int, out: PlacedArray
) -> IRStage:
    """A copy in which no element is within the bounds, so that it writes zeros."""
    nothing = Bound((), 0, 0)
    copy = Copy(walks, (nothing,), out_offset=offset)
    source = context.geometry.inputs[0].name
    return context.copy(copy, source, out.slot, {OUT_SLOT: out.move})
