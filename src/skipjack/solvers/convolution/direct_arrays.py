"""The arrays of a direct convolution: read where they lie, or copied to where loops want them.

Loops want channels last, pads of zeros around, and filters in panels (`direct_nests`). What lies so
already is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from skipjack.core.device import Device
from skipjack.core.nest import Tensor
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import OUT, Axis, Geometry, Role
from skipjack.solvers.convolution.direct_nests import (
    Panels,
    by_group,
    merges_taps,
    phases,
    result_margins,
)
from skipjack.solvers.loops.copying import OUT as OUT_SLOT
from skipjack.solvers.loops.copying import SOURCE, Bound, Copy, Walk, copy_stage
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot

_PIXELS = ("d", "h", "w")


@dataclass(frozen=True, slots=True)
class Place:
    """An array as the loops see it, and how it comes or goes."""

    tensor: Tensor
    slot: Slot
    move: int = 0
    """Bytes from one round's images to the next's, where it is read or written in place."""
    copies: tuple[Stage, ...] = ()
    """What fills it before the loops, or takes it away after them."""


@dataclass(frozen=True, slots=True)
class Room:
    """What copies need to know: the problem's arrays, and how many images a round has."""

    geometry: Geometry
    images: int
    dtype: str
    device: Device
    threads: int

    def copy(self, copy: Copy, source: Slot, out: Slot, moves: dict[int, int]) -> Stage:
        """A copy as a stage; `moves` are for `SOURCE` and `OUT_SLOT`."""
        stage = copy_stage(copy, source, out, self.dtype, self.device, self.threads)
        return replace(stage, moves={end: move for end, move in moves.items() if move})

    def scratch(self, name: str, shape: Sequence[int]) -> Slot:
        """Memory for an array between stages."""
        return scratch_slot(name, prod(shape) * ITEM_BYTES[self.dtype])

    def stored(self, role: Role) -> tuple[Tensor, dict[str, int], int]:
        """An image or result of a round with channels last, its strides by letter, its bytes."""
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
    """With axes of a single tap whose stride a copy of the image leaves out."""

    def axis(each: Axis) -> Axis:
        if each.filter > 1 or each.pad or each.stride == 1:
            return each
        return Axis(each.result, 1, each.result)

    depth, height, width = (axis(each) for each in geometry.axes)
    return replace(geometry, axes=(depth, height, width))


def read_image(room: Room) -> tuple[Place, Geometry]:
    """The image with its pads, and the geometry that the loops then see."""
    geometry = room.geometry
    tensor, strides, move = room.stored("image")
    pads = [(axis.pad, max(0, axis.pad_after)) for axis in geometry.axes]
    if geometry.channels_last and not any(map(any, pads)):
        return Place(tensor, geometry.name("image"), move), geometry
    seen = compacted(geometry)
    sizes = [axis.padded for axis in seen.axes]
    steps = [old.stride // new.stride for old, new in zip(geometry.axes, seen.axes, strict=True)]
    padded = Tensor("image", (room.images, *sizes, geometry.c))
    slot = room.scratch("image", padded.shape)
    copy = _pixels(padded, strides, [pad for pad, _ in pads], geometry.image_sizes, steps)
    stage = room.copy(copy, geometry.name("image"), slot, {SOURCE: move})
    return Place(padded, slot, 0, (stage,)), seen


def read_result(room: Room) -> Place:
    """The result, with zeros around it where the image's gradient is wanted."""
    geometry = room.geometry
    tensor, strides, move = room.stored("result")
    margins = [(0, 0)] * 3
    if geometry.wanted == "image":
        margins = [result_margins(axis) for axis in geometry.axes]
    if geometry.channels_last and not any(map(any, margins)):
        return Place(tensor, geometry.name("result"), move)
    pairs = zip(margins, geometry.result_sizes, strict=True)
    sizes = [before + size + after for (before, after), size in pairs]
    padded = Tensor("result", (room.images, *sizes, geometry.k))
    slot = room.scratch("result", padded.shape)
    before = [each for each, _ in margins]
    copy = _pixels(padded, strides, before, geometry.result_sizes, [1, 1, 1])
    stage = room.copy(copy, geometry.name("result"), slot, {SOURCE: move})
    return Place(padded, slot, 0, (stage,))


def _pixels(
    padded: Tensor,
    strides: dict[str, int],
    before: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int],
) -> Copy:
    """From images as they are stored to padded ones with channels last."""
    names = ("n", *_PIXELS, "c")
    step = dict(zip(_PIXELS, steps, strict=True))
    walks = tuple(
        Walk(name, extent, out, strides[name] * step.get(name, 1))
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


def read_filter(room: Room, panels: Panels, *, by_panel: bool = False) -> Place:
    """The filter in panels of the output's channels; all of them, or one panel a round."""
    geometry = room.geometry
    taps = geometry.filter_sizes
    strides = _filter_strides(geometry)
    count = 1 if by_panel else panels.count
    if by_group(geometry):
        tensor, inner = Tensor("filter", (count, *taps, panels.width)), "k"
        sources: dict[str, int] = {}
        names: tuple[str, ...] = ("o", *_PIXELS, "v")
    else:
        # Channels of the result are the output's, or those that are summed over.
        inner, outer = ("k", "c") if geometry.wanted == "result" else ("c", "k")
        reduced = geometry.group_c if outer == "c" else geometry.group_k
        tensor = Tensor("filter", (geometry.groups, count, *taps, reduced, panels.width))
        sources = {"g": geometry.group_k * strides["k"], "r": strides[outer]}
        names = ("g", "o", *_PIXELS, "r", "v")
    sources |= {**strides, "o": panels.width * strides[inner], "v": strides[inner]}
    walks = tuple(
        Walk(name, extent, out, sources[name])
        for name, extent, out in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    slot = room.scratch("filter", tensor.shape)
    moves = {SOURCE: sources["o"] * ITEM_BYTES[room.dtype]} if by_panel else {}
    return Place(tensor, slot, 0, (room.copy(Copy(walks), geometry.name("filter"), slot, moves),))


def _filter_strides(geometry: Geometry) -> dict[str, int]:
    """Of the filter as it is stored, by letter."""
    taps = geometry.filter_sizes
    inside = Tensor("filter", taps).strides
    if geometry.channels_last:
        last = {"c": 1, "k": prod(taps) * geometry.group_c}
        return last | {n: s * geometry.group_c for n, s in zip(_PIXELS, inside, strict=True)}
    first = {"c": prod(taps), "k": prod(taps) * geometry.group_c}
    return first | dict(zip(_PIXELS, inside, strict=True))


def write_pixels(room: Room) -> Place:
    """The wanted image or result: in place, or in scratch memory that is turned round after."""
    wanted = room.geometry.wanted
    tensor, strides, move = room.stored(wanted)
    tensor = Tensor(OUT, tensor.shape)
    if room.geometry.channels_last:
        return Place(tensor, OUT, move)
    slot = room.scratch(OUT, tensor.shape)
    names = ("n", *_PIXELS, "c")
    walks = tuple(
        Walk(name, extent, strides[name], source)
        for name, extent, source in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    return Place(tensor, slot, 0, (room.copy(Copy(walks), slot, OUT, {OUT_SLOT: move}),))


def writes_filter_in_place(geometry: Geometry) -> bool:
    """Whether the loops' order of the wanted filter is the one it is stored in."""
    if by_group(geometry) or merges_taps(geometry):
        return False
    return geometry.channels_last or geometry.taps == 1


def write_filter(room: Room, kernels: int | None = None) -> Place:
    """The wanted filter: in place, or in scratch memory that is turned round after.

    With `kernels` only so many channels of the result, a round for each of their blocks.
    """
    geometry = room.geometry
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
            return Place(tensor, OUT)
    slot = room.scratch(OUT, tensor.shape)
    walks = tuple(
        Walk(name, extent, strides[name], source)
        for name, extent, source in zip(names, tensor.shape, tensor.strides, strict=True)
    )
    move = kernels * strides["k"] * ITEM_BYTES[room.dtype] if kernels else 0
    return Place(tensor, slot, 0, (room.copy(Copy(walks), slot, OUT, {OUT_SLOT: move}),))


def zeros(room: Room, out: Place) -> list[Stage]:
    """Stages that clear what no nest writes: pixels of the image that meet no tap."""
    geometry, stages = room.geometry, []
    if geometry.wanted == "filter":
        walks = _plain_walks(out.tensor)
        return [_cleared(room, walks, 0, out)]
    for combination in product(*(phases(axis) for axis in geometry.axes)):
        if all(phase.taps for phase in combination):
            continue
        first, *strides, last = out.tensor.strides
        pixels = [
            Walk(name, phase.count, stride * phase.stride, 0)
            for name, phase, stride in zip(_PIXELS, combination, strides, strict=True)
        ]
        offset = sum(
            phase.first * stride for phase, stride in zip(combination, strides, strict=True)
        )
        walks = (
            Walk("n", room.images, first, 0),
            *pixels,
            Walk("c", out.tensor.shape[-1], last, 0),
        )
        stages.append(_cleared(room, walks, offset, out))
    return stages


def _plain_walks(tensor: Tensor) -> tuple[Walk, ...]:
    return tuple(
        Walk(f"i{at}", extent, stride, 0)
        for at, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True))
    )


def _cleared(room: Room, walks: tuple[Walk, ...], offset: int, out: Place) -> Stage:
    """A copy of which no element lies within its bounds."""
    nothing = Bound((), 0, 0)
    copy = Copy(walks, (nothing,), out_offset=offset)
    source = room.geometry.inputs[0].name
    return room.copy(copy, source, out.slot, {OUT_SLOT: out.move})
