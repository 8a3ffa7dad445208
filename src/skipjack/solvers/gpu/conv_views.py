"""How the copy engine sees images: in five dimensions, so that strides are whole steps."""

from __future__ import annotations

from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import Role
from skipjack.solvers.gpu.conv_boxes import Box
from skipjack.solvers.gpu.conv_layer import Layer
from skipjack.solvers.gpu.stage import Given, blocks

ALIGNED = 8
"""Elements of two bytes that rows must be a multiple of."""


def boxed(
    layer: Layer, role: Role, place: Pointer | Scratch, box: Box, channels: int, flat: bool
) -> Given:
    """Images, rows, a row's place within the stride, columns, channels by place.

    `flat`: all pixels are one long row.
    """
    images, rows, columns = layer.sizes(role)
    every = layer.channels(role)
    block = (box[0], box[1], 1, box[2], channels)
    if flat:
        pixels = images * rows * columns
        far = pixels * every
        return blocks(layer.type, place, (1, 1, 1, pixels, every), (far, far, far, every, 1), block)
    high = wide = 1
    if role == "image":
        high, wide = layer.high.stride, layer.wide.stride
    shape = (images, rows // high, high, columns // wide, wide * every)
    row = columns * every
    return blocks(layer.type, place, shape, (rows * row, high * row, row, wide * every, 1), block)


def matrix(layer: Layer, role: Role, place: Pointer | Scratch, rows: int, columns: int) -> Given:
    """Pixels by channels."""
    images, high, wide = layer.sizes(role)
    every = layer.channels(role)
    return blocks(layer.type, place, (images * high * wide, every), (every, 1), (rows, columns))
