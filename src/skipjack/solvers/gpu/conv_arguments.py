"""Arguments that the kernels of convolutions have in common."""

from __future__ import annotations

from skipjack.solvers.gpu.conv_boxes import Box
from skipjack.solvers.gpu.conv_layer import Layer
from skipjack.solvers.gpu.spec import Constant
from skipjack.solvers.gpu.stage import Given, size


def steps(layer: Layer) -> dict[str, Given]:
    """Pads and dilations. A single tap has a dilation of 1, whatever it was given."""
    high, wide = layer.high, layer.wide
    return {
        "pad_h": size(high.pad),
        "pad_w": size(wide.pad),
        "dilation_h": size(high.dilation if high.filter > 1 else 1),
        "dilation_w": size(wide.dilation if wide.filter > 1 else 1),
    }


def filter_constants(layer: Layer) -> dict[str, Constant]:
    """Sizes and strides of the filter."""
    high, wide = layer.high, layer.wide
    return {
        "Y": high.filter,
        "X": wide.filter,
        "STRIDE_H": high.stride,
        "STRIDE_W": wide.stride,
    }


def strides(layer: Layer) -> tuple[int, int]:
    """Classes of output pixels along rows and columns: one, unless the image is computed."""
    return (layer.high.stride, layer.wide.stride) if layer.back else (1, 1)


def box_constants(box: Box) -> dict[str, Constant]:
    """The box's sides."""
    return {"BOX_N": box[0], "BOX_H": box[1], "BOX_W": box[2]}
