"""Winograd's F(2x2, 3x3): sixteen products of transformed tiles in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack import operations
from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN, Scratch, Step
from skipjack.operations import OUT
from skipjack.solvers.gpu.conv.layer import ConvLayer, ceil_div, not_two_dimensional
from skipjack.solvers.gpu.conv.pointwise import matmul_solver, relocated
from skipjack.solvers.gpu.triton import KernelSpec, KernelStage, TritonSolver, array, integer

_PLACES = 16
_FILTER_BLOCK = 256
_TILES, _CHANNELS = 32, 64


class WinogradConvolution(TritonSolver):
    """Transforms by separate kernels, products by the solver for batched matrix products."""

    name = "triton_conv_winograd"
    algorithm = "Winograd"
    dtypes = ("tf32", "f32")
    """No 16-bit types: products that are rounded to 16 bits before they cancel out are wrong."""

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse gradients of filters, and all but 3x3 filters without strides and groups."""
        if device.arch not in KNOWN:
            return f"the limits of {device.arch} are not known"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if any((a.filter, a.stride, a.dilation) != (3, 1, 1) for a in (layer.high, layer.wide)):
            return "it needs 3x3 filters without strides and dilations"
        if layer.geometry.groups > 1:
            return "it needs a single group"
        if layer.computes_image and max(layer.high.pad, layer.wide.pad) > 2:
            return "for image gradients it needs pads of at most 2"
        if layer.direction == "wrw":
            return "it does not compute gradients of filters"
        product, bmm = _product(layer, device)
        return product.refuses(bmm, device)

    def tolerance_factor(self, problem: Problem) -> float:
        """Tiles are rounded before they are multiplied, and some products cancel out."""
        return 8.0

    def promise(self, problem: Problem, device: Device) -> float:
        """It saves multiplications, which are cheap, and moves four times as much memory."""
        layer = ConvLayer.of(problem)
        return 0.6 if layer.dtype == "f32" and min(layer.cols, layer.depth) >= 64 else 0.0

    def space(self, problem: Problem, device: Device) -> Space:
        """The space of the product."""
        product, bmm = _product(ConvLayer.of(problem), device)
        return product.space(bmm, device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The kernels of two transforms, the product, and a third transform."""
        layer = ConvLayer.of(problem)
        product, bmm = _product(layer, device)
        before, after = _transforms(layer)
        specs = product.kernels(bmm, device, config)
        return [*(stage.spec for stage in before), *specs, after.spec]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Transform image and filter, multiply, transform the products."""
        layer = ConvLayer.of(problem)
        product, bmm = _product(layer, device)
        before, after = _transforms(layer)
        steps = relocated(product.plan(bmm, device, config), _places(layer))
        return [*(stage.step for stage in before), *steps, after.step]


def _tiles(layer: ConvLayer) -> tuple[int, int, int]:
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    return images, ceil_div(rows, 2), ceil_div(columns, 2)


def _product(layer: ConvLayer, device: Device) -> tuple[TritonSolver, Problem]:
    """The solver and problem: tiles by channels, times channels by channels."""
    sizes = (_PLACES, prod(_tiles(layer)), layer.cols, layer.depth)
    text = f"bmm:{'x'.join(map(str, sizes))}/tb=1:{layer.dtype}"
    return matmul_solver(layer.dtype, device), operations.parse(text)


def _places(layer: ConvLayer) -> dict[str, Scratch]:
    """The scratch arrays for the product's tensors."""
    tiles, each = prod(_tiles(layer)), _PLACES * layer.element_bytes
    return {
        "a": Scratch("tiles", each * tiles * layer.depth),
        "b": Scratch("filters", each * layer.cols * layer.depth),
        "out": Scratch("products", each * tiles * layer.cols),
    }


def _transforms(layer: ConvLayer) -> tuple[list[KernelStage], KernelStage]:
    """The transforms of image and filter before the products, and of the products after them."""
    places, geometry = _places(layer), layer.geometry
    images, high, wide = _tiles(layer)
    _, in_rows, in_columns = layer.sizes(layer.given)
    _, rows, columns = layer.sizes(geometry.wanted)
    # For image gradients, the gradient is padded by what the filter reaches beyond its pads.
    pads = [2 - axis.pad if layer.computes_image else axis.pad for axis in (layer.high, layer.wide)]
    tiles = {"tiles_h": integer(high), "tiles_w": integer(wide)}
    blocks = {"LAST": layer.channels_last, "BLOCK_CHANNELS": _CHANNELS}
    given = KernelStage(
        "transform_image",
        "skipjack.solvers.gpu.kernels.conv.winograd",
        "images",
        (ceil_div(images * high * wide, _TILES), _PLACES, ceil_div(layer.depth, _CHANNELS)),
        {
            "given": array(layer.type, geometry.name(layer.given)),
            "out": array(layer.type, places["a"]),
            "count": integer(images),
            "rows": integer(in_rows),
            "columns": integer(in_columns),
            "channels": integer(layer.depth),
            **tiles,
            "pad_h": integer(pads[0]),
            "pad_w": integer(pads[1]),
        },
        {**blocks, "BLOCK_TILES": _TILES},
    )
    filters = KernelStage(
        "transform_filter",
        "skipjack.solvers.gpu.kernels.conv.winograd",
        "filters",
        (ceil_div(layer.cols * layer.depth, _FILTER_BLOCK), _PLACES),
        {
            "weights": array(layer.type, geometry.name("filter")),
            "out": array(layer.type, places["b"]),
            "cols": integer(layer.cols),
            "depth": integer(layer.depth),
        },
        {"BACK": layer.computes_image, "LAST": layer.channels_last, "BLOCK": _FILTER_BLOCK},
    )
    after = KernelStage(
        "transform_products",
        "skipjack.solvers.gpu.kernels.conv.winograd",
        "results",
        (ceil_div(images * rows * columns, _TILES), ceil_div(layer.cols, _CHANNELS)),
        {
            "products": array(layer.type, places["out"]),
            "out": array(layer.type, OUT),
            "count": integer(images),
            "rows": integer(rows),
            "columns": integer(columns),
            "channels": integer(layer.cols),
            **tiles,
        },
        {**blocks, "BLOCK_PIXELS": _TILES},
    )
    return [given, filters], after
