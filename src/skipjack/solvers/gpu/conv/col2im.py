"""Gradients of images with few channels: one product over all taps, then col2im.

Matrix units need sixteen columns or more; with few channels the taps become columns, too. The
products are written once and read once, which is little compared with reading the result for each
tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.gpu import KNOWN, Pointer, Scratch
from skipjack.operations import OUT
from skipjack.solvers.gpu.conv.layer import (
    ConvLayer,
    best_boxes,
    box_count,
    box_text,
    box_waste,
    ceil_div,
    not_two_dimensional,
    parse_box,
)
from skipjack.solvers.gpu.conv.stages import ALIGNED, box_constants, box_view, filter_constants
from skipjack.solvers.gpu.triton import (
    KernelStage,
    LaunchArgument,
    StagedGpuSolver,
    array,
    integer,
    tma_array,
)

_MOST_CHANNELS = 8
_COL2IM_BLOCK = 256
_BLOCK_ROWS, _BLOCK_COLUMNS = 8, 256


class Col2imConvolution(StagedGpuSolver):
    """Products on TMA boxes (NHWC) or on planes (NCHW), followed by a col2im kernel."""

    name = "triton_conv_fold"
    chains = True
    algorithm = "GEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse many channels, groups, dilations, and all but the gradient of the image."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine (TMA)"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if not layer.computes_image:
            return "it computes gradients of images only"
        if layer.geometry.groups > 1 or layer.c > _MOST_CHANNELS:
            return f"it is for at most {_MOST_CHANNELS} channels in one group"
        if any(axis.dilation > 1 and axis.filter > 1 for axis in (layer.high, layer.wide)):
            return "it needs dilations of 1"
        if layer.k % 16:
            return "it needs multiples of 16 channels to sum over"
        if not layer.channels_last and layer.geometry.result_pixels % ALIGNED:
            return f"it needs planes of a multiple of {ALIGNED} pixels"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """With few channels no other solver uses the matrix units well."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, boxes, warps and stages of the product."""
        layer = ConvLayer.of(problem)
        most, sizes = KNOWN[device.arch].shared_bytes, layer.sizes("result")
        names = [
            box_text(box) for side in (64, 128, 256) for box in best_boxes(sizes, side, 1, True)
        ]
        if not layer.channels_last:
            names = [box_text((1, 1, side)) for side in (64, 128, 256)]

        def fits(box: str, cols: int, depth: int, warps: int, stages: int) -> bool:
            pixels = prod(parse_box(box))
            shared = max((pixels + cols) * depth * 2 * stages, pixels * cols * 4)
            return shared + 2048 <= most and 16 <= pixels * cols // (warps * 32) <= 128

        def estimate(config: Config) -> float:
            box, cols = parse_box(str(config["box"])), int(config["cols"])
            padded = ceil_div(_columns(layer), cols) * cols / _columns(layer)
            wasted = box_waste(sizes, box) if layer.channels_last else 1.0
            small = 8192 / (prod(box) * cols)
            deep = abs(int(config["stages"]) - 3) * 0.02
            return padded * wasted * (1 + 0.2 * small + deep)

        depths = tuple(depth for depth in (64, 32, 16) if layer.k % depth == 0)
        return ParameterSpace(
            [
                Parameter("box", tuple(names)),
                Parameter("cols", (64, 128)),
                Parameter("depth", depths[:2]),
                Parameter("warps", (4, 8)),
                Parameter("stages", (2, 3, 4)),
                Parameter("early", (True,)),
            ],
            [fits],
            estimate,
            default_by_order=True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """Widen the filter's rows, multiply, apply col2im."""
        layer = ConvLayer.of(problem)
        product = _by_boxes(layer, config) if layer.channels_last else _by_planes(layer, config)
        return [_widened(layer), product, _col2im(layer)]


def _columns(layer: ConvLayer) -> int:
    return layer.c * layer.geometry.taps


def _width(layer: ConvLayer) -> int:
    """Elements of a row of the filter, padded so that TMA can read it."""
    return ceil_div(_columns(layer), ALIGNED) * ALIGNED


def _wide(layer: ConvLayer) -> Scratch:
    return Scratch("wide_filter", layer.k * _width(layer) * layer.element_bytes)


def _products(layer: ConvLayer) -> Scratch:
    """In float32: products rounded to 16 bits before the sum would lose a digit."""
    pixels = prod(layer.sizes("result"))
    return Scratch("products", pixels * _columns(layer) * 4)


def _widened(layer: ConvLayer) -> KernelStage:
    across = ceil_div(_columns(layer), _BLOCK_COLUMNS)
    return KernelStage(
        "widen",
        "skipjack.solvers.gpu.kernels.gemm.split_k",
        "widen",
        (ceil_div(layer.k, _BLOCK_ROWS) * across,),
        {
            "x": array(layer.type, layer.geometry.name("filter")),
            "to": array(layer.type, _wide(layer)),
            "rows": integer(layer.k),
            "columns": integer(_columns(layer)),
            "width": integer(_width(layer)),
        },
        {"BR": _BLOCK_ROWS, "BC": _BLOCK_COLUMNS},
        begins=True,
    )


def _weights(layer: ConvLayer, config: Config) -> LaunchArgument:
    shape = (layer.k, _columns(layer))
    block = (int(config["depth"]), int(config["cols"]))
    return tma_array(layer.type, _wide(layer), shape, (_width(layer), 1), block)


def _by_boxes(layer: ConvLayer, config: Config) -> KernelStage:
    """The product as a 1x1 convolution whose channels are taps, written as planes."""
    box, sizes = parse_box(str(config["box"])), layer.sizes("result")
    place = Pointer(layer.geometry.name("result"))
    tiles = ceil_div(_columns(layer), int(config["cols"])) * box_count(sizes, box)
    return KernelStage(
        "product",
        "skipjack.solvers.gpu.kernels.conv.tma",
        "conv_box",
        (tiles,),
        {
            "given": box_view(layer, "result", place, box, int(config["depth"]), False),
            "weights": _weights(layer, config),
            "out": array("fp32", _products(layer)),
            "images": integer(sizes[0]),
            "rows": integer(sizes[1]),
            "columns": integer(sizes[2]),
            "cols": integer(_columns(layer)),
            "depth": integer(layer.k),
            "groups": integer(1),
            "pad_h": integer(0),
            "pad_w": integer(0),
            "dilation_h": integer(1),
            "dilation_w": integer(1),
        },
        {
            **{"Y": 1, "X": 1, "STRIDE_H": 1, "STRIDE_W": 1},
            "BACK": True,
            "STORE": "planes",
            **box_constants(box),
            "BLOCK_COLS": int(config["cols"]),
            "BLOCK_DEPTH": int(config["depth"]),
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _by_planes(layer: ConvLayer, config: Config) -> KernelStage:
    images, rows, columns = layer.sizes("result")
    pixels, across = rows * columns, prod(parse_box(str(config["box"])))
    tiles = images * ceil_div(_columns(layer), int(config["cols"])) * ceil_div(pixels, across)
    block = (int(config["depth"]), across)
    given = tma_array(
        layer.type,
        layer.geometry.name("result"),
        (images * layer.k, pixels),
        (pixels, 1),
        block,
    )
    return KernelStage(
        "product",
        "skipjack.solvers.gpu.kernels.conv.nchw_pointwise",
        "conv_planes",
        (tiles,),
        {
            "given": given,
            "weights": _weights(layer, config),
            "out": array("fp32", _products(layer)),
            "cols": integer(_columns(layer)),
            "depth": integer(layer.k),
            "pixels": integer(pixels),
            "tiles": integer(tiles),
        },
        {
            "BACK": True,
            "STORE": "planes",
            "WALK": False,
            "BLOCK_COLS": int(config["cols"]),
            "BLOCK_PIXELS": across,
            "BLOCK_DEPTH": int(config["depth"]),
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _col2im(layer: ConvLayer) -> KernelStage:
    images, rows, columns = layer.sizes("image")
    _, in_rows, in_columns = layer.sizes("result")
    high, wide = layer.high.stride, layer.wide.stride
    elements = images * layer.c * ceil_div(rows, high) * ceil_div(columns, wide)
    return KernelStage(
        "fold",
        "skipjack.solvers.gpu.kernels.conv.few_channels",
        "fold",
        (ceil_div(elements, _COL2IM_BLOCK), high * wide),
        {
            "products": array("fp32", _products(layer)),
            "out": array(layer.type, OUT),
            "images": integer(images),
            "rows": integer(rows),
            "columns": integer(columns),
            "in_rows": integer(in_rows),
            "in_columns": integer(in_columns),
            "pad_h": integer(layer.high.pad),
            "pad_w": integer(layer.wide.pad),
        },
        {
            "C": layer.c,
            **filter_constants(layer),
            "LAST": layer.channels_last,
            "BLOCK": _COL2IM_BLOCK,
        },
    )
