"""Gradients of images with few channels: one product over all taps, then every pixel adds up.

Matrix units need sixteen columns or more; with few channels the taps are taken as columns too. The
products are written once and read once, which is little beside reading the result tap by tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import OUT
from skipjack.solvers.gpu.conv_arguments import box_constants, filter_constants
from skipjack.solvers.gpu.conv_boxes import best_boxes, ceil_div, count, read, text, waste
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.conv_views import ALIGNED, boxed
from skipjack.solvers.gpu.stage import Given, Stage, StagedGpuSolver, array, blocks, size

_MOST_CHANNELS = 8
_FOLDED = 256
_BLOCK_ROWS, _BLOCK_COLUMNS = 8, 256


class FoldConvolution(StagedGpuSolver):
    """Products by boxes or by planes, folded by a kernel of its own."""

    name = "triton_conv_fold"
    chains = True
    algorithm = "GEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Many channels, groups, dilations, and all but the image's gradient."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine for blocks"
        if reason := not_two_dimensional(problem):
            return reason
        layer = Layer.of(problem)
        if not layer.back:
            return "it computes images alone"
        if layer.geometry.groups > 1 or layer.c > _MOST_CHANNELS:
            return f"it is for at most {_MOST_CHANNELS} channels in one group"
        if any(axis.dilation > 1 and axis.filter > 1 for axis in (layer.high, layer.wide)):
            return "it needs dilations of 1"
        if layer.k % 16:
            return "it needs multiples of 16 channels to sum over"
        if not layer.last and layer.geometry.result_pixels % ALIGNED:
            return f"it needs planes of a multiple of {ALIGNED} pixels"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """For few channels nothing else uses the matrix units well."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, boxes, warps and stages of the product."""
        layer = Layer.of(problem)
        most, sizes = KNOWN[device.arch].shared_bytes, layer.sizes("result")
        names = [text(box) for side in (64, 128, 256) for box in best_boxes(sizes, side, 1, True)]
        if not layer.last:
            names = [text((1, 1, side)) for side in (64, 128, 256)]

        def fits(box: str, cols: int, depth: int, warps: int, stages: int) -> bool:
            pixels = prod(read(box))
            shared = max((pixels + cols) * depth * 2 * stages, pixels * cols * 4)
            return shared + 2048 <= most and 16 <= pixels * cols // (warps * 32) <= 128

        def estimate(config: Config) -> float:
            box, cols = read(str(config["box"])), int(config["cols"])
            padded = ceil_div(_columns(layer), cols) * cols / _columns(layer)
            wasted = waste(sizes, box) if layer.last else 1.0
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

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """Widen the filter's rows, multiply, fold."""
        layer = Layer.of(problem)
        product = _by_boxes(layer, config) if layer.last else _by_planes(layer, config)
        return [_widened(layer), product, _folded(layer)]


def _columns(layer: Layer) -> int:
    return layer.c * layer.geometry.taps


def _width(layer: Layer) -> int:
    """Of a row of the filter that the copy engine can read."""
    return ceil_div(_columns(layer), ALIGNED) * ALIGNED


def _wide(layer: Layer) -> Scratch:
    return Scratch("wide_filter", layer.k * _width(layer) * layer.element_bytes)


def _products(layer: Layer) -> Scratch:
    """In float32: rounded to 16 bits before they are added up they would cost a digit."""
    pixels = prod(layer.sizes("result"))
    return Scratch("products", pixels * _columns(layer) * 4)


def _widened(layer: Layer) -> Stage:
    across = ceil_div(_columns(layer), _BLOCK_COLUMNS)
    return Stage(
        "widen",
        "joining",
        "widen",
        (ceil_div(layer.k, _BLOCK_ROWS) * across,),
        {
            "x": array(layer.type, layer.geometry.name("filter")),
            "to": array(layer.type, _wide(layer)),
            "rows": size(layer.k),
            "columns": size(_columns(layer)),
            "width": size(_width(layer)),
        },
        {"BR": _BLOCK_ROWS, "BC": _BLOCK_COLUMNS},
        begins=True,
    )


def _weights(layer: Layer, config: Config) -> Given:
    shape = (layer.k, _columns(layer))
    block = (int(config["depth"]), int(config["cols"]))
    return blocks(layer.type, _wide(layer), shape, (_width(layer), 1), block)


def _by_boxes(layer: Layer, config: Config) -> Stage:
    """As a 1x1 convolution with taps for channels, written into planes."""
    box, sizes = read(str(config["box"])), layer.sizes("result")
    place = Pointer(layer.geometry.name("result"))
    tiles = ceil_div(_columns(layer), int(config["cols"])) * count(sizes, box)
    return Stage(
        "product",
        "conv_box",
        "conv_box",
        (tiles,),
        {
            "given": boxed(layer, "result", place, box, int(config["depth"]), False),
            "weights": _weights(layer, config),
            "out": array("fp32", _products(layer)),
            "images": size(sizes[0]),
            "rows": size(sizes[1]),
            "columns": size(sizes[2]),
            "cols": size(_columns(layer)),
            "depth": size(layer.k),
            "groups": size(1),
            "pad_h": size(0),
            "pad_w": size(0),
            "dilation_h": size(1),
            "dilation_w": size(1),
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


def _by_planes(layer: Layer, config: Config) -> Stage:
    images, rows, columns = layer.sizes("result")
    pixels, across = rows * columns, prod(read(str(config["box"])))
    tiles = images * ceil_div(_columns(layer), int(config["cols"])) * ceil_div(pixels, across)
    block = (int(config["depth"]), across)
    given = blocks(
        layer.type,
        layer.geometry.name("result"),
        (images * layer.k, pixels),
        (pixels, 1),
        block,
    )
    return Stage(
        "product",
        "conv_planes",
        "conv_planes",
        (tiles,),
        {
            "given": given,
            "weights": _weights(layer, config),
            "out": array("fp32", _products(layer)),
            "cols": size(_columns(layer)),
            "depth": size(layer.k),
            "pixels": size(pixels),
            "tiles": size(tiles),
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


def _folded(layer: Layer) -> Stage:
    images, rows, columns = layer.sizes("image")
    _, in_rows, in_columns = layer.sizes("result")
    high, wide = layer.high.stride, layer.wide.stride
    elements = images * layer.c * ceil_div(rows, high) * ceil_div(columns, wide)
    return Stage(
        "fold",
        "fold",
        "fold",
        (ceil_div(elements, _FOLDED), high * wide),
        {
            "products": array("fp32", _products(layer)),
            "out": array(layer.type, OUT),
            "images": size(images),
            "rows": size(rows),
            "columns": size(columns),
            "in_rows": size(in_rows),
            "in_columns": size(in_columns),
            "pad_h": size(layer.high.pad),
            "pad_w": size(layer.wide.pad),
        },
        {"C": layer.c, **filter_constants(layer), "LAST": layer.last, "BLOCK": _FOLDED},
    )
