"""Kernel arguments and stages that convolutions share: TMA views of images, transposes, sums of
parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.gpu import Pointer, Scratch
from skipjack.operations import OUT, Role
from skipjack.solvers.gpu.conv.layer import Box, ConvLayer, ceil_div
from skipjack.solvers.gpu.triton import (
    Constant,
    KernelStage,
    LaunchArgument,
    array,
    integer,
    tma_array,
)

# Arguments that the kernels of convolutions have in common.


def pads_and_dilations(layer: ConvLayer) -> dict[str, LaunchArgument]:
    """Pads and dilations. The dilation of a single tap is 1, whatever the problem says."""
    high, wide = layer.high, layer.wide
    return {
        "pad_h": integer(high.pad),
        "pad_w": integer(wide.pad),
        "dilation_h": integer(high.dilation if high.filter > 1 else 1),
        "dilation_w": integer(wide.dilation if wide.filter > 1 else 1),
    }


def filter_constants(layer: ConvLayer) -> dict[str, Constant]:
    """Sizes and strides of the filter."""
    high, wide = layer.high, layer.wide
    return {
        "Y": high.filter,
        "X": wide.filter,
        "STRIDE_H": high.stride,
        "STRIDE_W": wide.stride,
    }


def output_strides(layer: ConvLayer) -> tuple[int, int]:
    """Strides of the output pixels that are computed alike: above 1 only for image gradients."""
    return (layer.high.stride, layer.wide.stride) if layer.computes_image else (1, 1)


def box_constants(box: Box) -> dict[str, Constant]:
    """The sides of a box."""
    return {"BOX_N": box[0], "BOX_H": box[1], "BOX_W": box[2]}


# Images as TMA descriptors of five dimensions, in which strides are whole steps.

ALIGNED = 8
"""Rows must be a multiple of this many two-byte elements."""


def box_view(
    layer: ConvLayer, role: Role, place: Pointer | Scratch, box: Box, channels: int, flat: bool
) -> LaunchArgument:
    """A view of images, rows, positions within the vertical stride, columns, and the channels of
    all positions within the horizontal stride.

    `flat`: all pixels are one long row.
    """
    images, rows, columns = layer.sizes(role)
    every = layer.channels(role)
    block = (box[0], box[1], 1, box[2], channels)
    if flat:
        pixels = images * rows * columns
        far = pixels * every
        return tma_array(
            layer.type, place, (1, 1, 1, pixels, every), (far, far, far, every, 1), block
        )
    high = wide = 1
    if role == "image":
        high, wide = layer.high.stride, layer.wide.stride
    shape = (images, rows // high, high, columns // wide, wide * every)
    row = columns * every
    return tma_array(
        layer.type, place, shape, (rows * row, high * row, row, wide * every, 1), block
    )


def matrix_view(
    layer: ConvLayer, role: Role, place: Pointer | Scratch, rows: int, columns: int
) -> LaunchArgument:
    """The matrix of pixels by channels."""
    images, high, wide = layer.sizes(role)
    every = layer.channels(role)
    return tma_array(layer.type, place, (images * high * wide, every), (every, 1), (rows, columns))


# Stages before and after a convolution: transposing layouts, and adding up parts.

_SUMMED = 512


def transposed_scratch(layer: ConvLayer, role: Role) -> Scratch:
    """Scratch memory for the transposed copy of an array."""
    return Scratch(f"turned_{role}", layer.elements(role) * layer.element_bytes)


@dataclass(frozen=True, slots=True)
class _Transpose:
    """Matrices to transpose, and the blocks to do it in."""

    source: Pointer | Scratch
    out: Pointer | Scratch
    count: int
    rows: int
    columns: int

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        rows, columns = (64 if side >= 64 else 16 for side in (self.rows, self.columns))
        return rows, columns

    @property
    def blocks(self) -> int:
        """Number of blocks of all matrices."""
        rows, columns = self.sides
        return self.count * ceil_div(self.rows, rows) * ceil_div(self.columns, columns)

    def given(self, type_: str, prefix: str = "") -> dict[str, LaunchArgument]:
        """The arguments of the kernel."""
        return {
            f"{prefix}source": array(type_, self.source),
            f"{prefix}out": array(type_, self.out),
            f"{prefix}rows": integer(self.rows),
            f"{prefix}columns": integer(self.columns),
        }


def transposed_input(layer: ConvLayer, role: Role, other: Role | None = None) -> KernelStage:
    """Transpose from channels before the pixels to channels after them, into scratch memory.

    `other` is a second array that the same launch transposes.
    """
    first = _transpose(layer, role)
    rows, columns = first.sides
    blocks = {"ROWS": rows, "COLUMNS": columns}
    given = first.given(layer.type)
    if other is None:
        return KernelStage(
            f"turn_{role}",
            "skipjack.solvers.gpu.kernels.conv.layouts",
            "transpose",
            (first.blocks,),
            given,
            blocks,
        )
    second = _transpose(layer, other)
    rows, columns = second.sides
    return KernelStage(
        f"turn_{role}_{other}",
        "skipjack.solvers.gpu.kernels.conv.layouts",
        "transpose_two",
        (first.blocks + second.blocks,),
        {**given, "blocks": integer(first.blocks), **second.given(layer.type, "other_")},
        {**blocks, "OTHER_ROWS": rows, "OTHER_COLUMNS": columns},
    )


def transposed_output(layer: ConvLayer) -> KernelStage:
    """Transpose the result from scratch memory to channels before the pixels."""
    forward = _transpose(layer, layer.geometry.wanted)
    backward = _Transpose(forward.out, Pointer(OUT), forward.count, forward.columns, forward.rows)
    rows, columns = backward.sides
    constants = {"ROWS": rows, "COLUMNS": columns}
    given = backward.given(layer.type)
    return KernelStage(
        "turn_back",
        "skipjack.solvers.gpu.kernels.conv.layouts",
        "transpose",
        (backward.blocks,),
        given,
        constants,
    )


def _transpose(layer: ConvLayer, role: Role) -> _Transpose:
    """The transpose of matrices whose columns are the pixels."""
    place, to = Pointer(layer.geometry.name(role)), transposed_scratch(layer, role)
    if role == "filter":
        return _Transpose(place, to, layer.geometry.k, layer.c, layer.geometry.taps)
    images, rows, columns = layer.sizes(role)
    return _Transpose(place, to, images, layer.channels(role), rows * columns)


def part_scratch(layer: ConvLayer, parts: int) -> Scratch:
    """Scratch memory for the parts of the filter's gradient."""
    return Scratch("parts", 4 * parts * layer.elements("filter"))


def sum_of_parts(layer: ConvLayer, parts: int, transpose: bool) -> KernelStage:
    """Add up the parts.

    With `transpose` they are k x taps x channels, and the sum is stored with channels first.
    """
    elements = layer.elements("filter")
    return KernelStage(
        "sum",
        "skipjack.solvers.gpu.kernels.conv.layouts",
        "part_sums",
        (ceil_div(elements, _SUMMED),),
        {
            "parts": array("fp32", part_scratch(layer, parts)),
            "out": array(layer.type, OUT),
            "size": integer(elements),
            "count": integer(parts),
            "channels": integer(layer.c),
        },
        {
            "TAPS": layer.geometry.taps if transpose and not layer.channels_last else 1,
            "BLOCK": _SUMMED,
        },
    )
