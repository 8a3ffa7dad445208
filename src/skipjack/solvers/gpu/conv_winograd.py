"""Winograd's F(2x2, 3x3): sixteen products of transformed tiles in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack import operations
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Scratch, Step
from skipjack.operations.conv_geometry import OUT
from skipjack.solvers.gpu.conv_boxes import ceil_div
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.product_places import multiplying, placed
from skipjack.solvers.gpu.spec import KernelSpec
from skipjack.solvers.gpu.stage import Stage, array, size
from skipjack.solvers.gpu.triton_solver import TritonSolver

_PLACES = 16
_FILTER_BLOCK = 256
_TILES, _CHANNELS = 32, 64


class WinogradConvolution(TritonSolver):
    """Transforms by kernels of its own, products by the solver for batches of matrices."""

    name = "triton_conv_winograd"
    algorithm = "Winograd"
    dtypes = ("tf32", "f32")
    """None of 16 bits: products that are rounded to them before they cancel out are wrong."""

    def refuses(self, problem: Problem, device: Device) -> str:
        """All but 3x3 filters without strides, dilations and groups; filters' gradients."""
        if device.arch not in KNOWN:
            return f"nothing is known of {device.arch}"
        if reason := not_two_dimensional(problem):
            return reason
        layer = Layer.of(problem)
        if any((a.filter, a.stride, a.dilation) != (3, 1, 1) for a in (layer.high, layer.wide)):
            return "it needs 3x3 filters without strides and dilations"
        if layer.geometry.groups > 1:
            return "it needs a single group"
        if layer.back and max(layer.high.pad, layer.wide.pad) > 2:
            return "backwards it needs pads of at most 2"
        if layer.direction == "wrw":
            return "it does not compute filters"
        product, bmm = _product(layer, device)
        return product.refuses(bmm, device)

    def slack(self, problem: Problem) -> float:
        """Tiles are rounded before they are multiplied, and some products cancel out."""
        return 8.0

    def promise(self, problem: Problem, device: Device) -> float:
        """It saves multiplications, which are cheap, and moves four times as much memory."""
        layer = Layer.of(problem)
        return 0.6 if layer.dtype == "f32" and min(layer.cols, layer.depth) >= 64 else 0.0

    def space(self, problem: Problem, device: Device) -> Space:
        """That of the product."""
        product, bmm = _product(Layer.of(problem), device)
        return product.space(bmm, device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """Two transforms, the product, a third."""
        layer = Layer.of(problem)
        product, bmm = _product(layer, device)
        before, after = _transforms(layer)
        specs = product.kernels(bmm, device, config)
        return [*(stage.spec for stage in before), *specs, after.spec]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Transform image and filter, multiply, transform the products."""
        layer = Layer.of(problem)
        product, bmm = _product(layer, device)
        before, after = _transforms(layer)
        steps = placed(product.plan(bmm, device, config), _places(layer))
        return [*(stage.step for stage in before), *steps, after.step]


def _tiles(layer: Layer) -> tuple[int, int, int]:
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    return images, ceil_div(rows, 2), ceil_div(columns, 2)


def _product(layer: Layer, device: Device) -> tuple[TritonSolver, Problem]:
    """Tiles by channels, times channels by channels."""
    sizes = (_PLACES, prod(_tiles(layer)), layer.cols, layer.depth)
    text = f"bmm:{'x'.join(map(str, sizes))}/tb=1:{layer.dtype}"
    return multiplying(layer.dtype, device), operations.parse(text)


def _places(layer: Layer) -> dict[str, Scratch]:
    """What the product's tensors are here."""
    tiles, each = prod(_tiles(layer)), _PLACES * layer.element_bytes
    return {
        "a": Scratch("tiles", each * tiles * layer.depth),
        "b": Scratch("filters", each * layer.cols * layer.depth),
        "out": Scratch("products", each * tiles * layer.cols),
    }


def _transforms(layer: Layer) -> tuple[list[Stage], Stage]:
    """Of the image and the filter before the products, and of these after them."""
    places, geometry = _places(layer), layer.geometry
    images, high, wide = _tiles(layer)
    _, in_rows, in_columns = layer.sizes(layer.given)
    _, rows, columns = layer.sizes(geometry.wanted)
    # Backwards, as much is added around the gradient as the filter reaches beyond its pads.
    pads = [2 - axis.pad if layer.back else axis.pad for axis in (layer.high, layer.wide)]
    tiles = {"tiles_h": size(high), "tiles_w": size(wide)}
    blocks = {"LAST": layer.last, "BLOCK_CHANNELS": _CHANNELS}
    given = Stage(
        "transform_image",
        "winograd",
        "images",
        (ceil_div(images * high * wide, _TILES), _PLACES, ceil_div(layer.depth, _CHANNELS)),
        {
            "given": array(layer.type, geometry.name(layer.given)),
            "out": array(layer.type, places["a"]),
            "count": size(images),
            "rows": size(in_rows),
            "columns": size(in_columns),
            "channels": size(layer.depth),
            **tiles,
            "pad_h": size(pads[0]),
            "pad_w": size(pads[1]),
        },
        {**blocks, "BLOCK_TILES": _TILES},
    )
    filters = Stage(
        "transform_filter",
        "winograd",
        "filters",
        (ceil_div(layer.cols * layer.depth, _FILTER_BLOCK), _PLACES),
        {
            "weights": array(layer.type, geometry.name("filter")),
            "out": array(layer.type, places["b"]),
            "cols": size(layer.cols),
            "depth": size(layer.depth),
        },
        {"BACK": layer.back, "LAST": layer.last, "BLOCK": _FILTER_BLOCK},
    )
    after = Stage(
        "transform_products",
        "winograd",
        "results",
        (ceil_div(images * rows * columns, _TILES), ceil_div(layer.cols, _CHANNELS)),
        {
            "products": array(layer.type, places["out"]),
            "out": array(layer.type, OUT),
            "count": size(images),
            "rows": size(rows),
            "columns": size(columns),
            "channels": size(layer.cols),
            **tiles,
        },
        {**blocks, "BLOCK_PIXELS": _TILES},
    )
    return [given, filters], after
