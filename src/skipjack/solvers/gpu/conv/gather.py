"""Implicit products by plain addresses: any two-dimensional convolution, on any GPU."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN
from skipjack.operations import OUT
from skipjack.solvers.gpu.conv.layer import ConvLayer, SumParts, ceil_div, not_two_dimensional
from skipjack.solvers.gpu.conv.spaces import gather_filter_space, gather_space
from skipjack.solvers.gpu.conv.stages import (
    filter_constants,
    output_strides,
    pads_and_dilations,
    part_scratch,
    sum_of_parts,
)
from skipjack.solvers.gpu.triton import KernelStage, StagedGpuSolver, array, integer

_MODULE = "skipjack.solvers.gpu.kernels.conv.gather"


class GatherConvolution(StagedGpuSolver):
    """Gathers pixels by their addresses, with any groups, strides and dilations."""

    name = "triton_conv_gather"
    chains = True
    algorithm = "ImplicitGEMM"
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, three dimensions, and unknown GPUs."""
        if device.arch not in KNOWN:
            return f"the limits of {device.arch} are not known"
        return not_two_dimensional(problem)

    def promise(self, problem: Problem, device: Device) -> float:
        """The only solver on many GPUs; with TMA others are faster."""
        layer = ConvLayer.of(problem)
        if layer.geometry.depthwise:
            return 0.3
        few = layer.geometry.groups == 1 and layer.geometry.c <= 8
        even = layer.depth % 16 == 0 and layer.cols % 8 == 0
        if not KNOWN[device.arch].tma or layer.element_bytes != 2:
            return 1.0
        return 0.3 if few else 0.0 if even else 1.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, parts of long sums, warps and stages."""
        layer = ConvLayer.of(problem)
        if layer.direction == "wrw":
            return gather_filter_space(layer, device)
        return gather_space(layer, device)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The product, and the kernel that adds up its parts."""
        layer = ConvLayer.of(problem)
        if layer.direction != "wrw":
            return [_convolved(layer, config)]
        return _gradient(layer, device, config)


def _convolved(layer: ConvLayer, config: Config) -> KernelStage:
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    _, in_rows, in_columns = layer.sizes(layer.given)
    high, wide = (1, 1) if layer.sparse else output_strides(layer)
    pixels = images * ceil_div(rows, high) * ceil_div(columns, wide)
    tile_pixels, tile_cols = int(config["pixels"]), int(config["cols"])
    tiles = ceil_div(pixels, tile_pixels) * ceil_div(layer.cols, tile_cols)
    names = layer.geometry
    return KernelStage(
        "convolution",
        _MODULE,
        "conv_gather",
        (tiles, high * wide, names.groups),
        {
            "given": array(layer.type, names.name(layer.given)),
            "weights": array(layer.type, names.name("filter")),
            "out": array(layer.type, OUT),
            "images": integer(images),
            "rows": integer(rows),
            "columns": integer(columns),
            "in_rows": integer(in_rows),
            "in_columns": integer(in_columns),
            "cols": integer(layer.cols),
            "depth": integer(layer.depth),
            "groups": integer(names.groups),
            **pads_and_dilations(layer),
        },
        {
            **filter_constants(layer),
            "BACK": layer.computes_image,
            "LAST": layer.channels_last,
            "SPARSE": layer.sparse,
            "BLOCK_PIXELS": tile_pixels,
            "BLOCK_COLS": tile_cols,
            "BLOCK_DEPTH": int(config["depth"]),
            "PRECISION": layer.precision,
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _gradient(layer: ConvLayer, device: Device, config: Config) -> list[KernelStage]:
    images, rows, columns = layer.sizes("result")
    _, in_rows, in_columns = layer.sizes("image")
    pixels = images * rows * columns
    tile_k, tile_c = int(config["k"]), int(config["c"])
    tiles = ceil_div(layer.k, tile_k) * ceil_div(layer.c * layer.geometry.taps, tile_c)
    tiles *= layer.geometry.groups
    chunks = ceil_div(pixels, int(config["pixels"]))
    parts = SumParts.of(chunks, tiles, device.units, int(config["waves"]))
    names = layer.geometry
    # Parts have the layout of the filter, so that the sum does not transpose.
    out = array("fp32", part_scratch(layer, parts.count)) if parts.several else None
    stage = KernelStage(
        "gradient",
        _MODULE,
        "conv_gather_filter",
        (tiles // names.groups, parts.count, names.groups),
        {
            "image": array(layer.type, names.name("image")),
            "result": array(layer.type, names.name("result")),
            "out": out or array(layer.type, OUT),
            "pixels": integer(pixels),
            "rows": integer(rows),
            "columns": integer(columns),
            "in_rows": integer(in_rows),
            "in_columns": integer(in_columns),
            "k": integer(layer.k),
            "c": integer(layer.c),
            "groups": integer(names.groups),
            "share": integer(parts.share),
            "part_stride": integer(layer.elements("filter")),
            **pads_and_dilations(layer),
        },
        {
            **filter_constants(layer),
            "LAST": layer.channels_last,
            "BLOCK_K": tile_k,
            "BLOCK_C": tile_c,
            "BLOCK_PIXELS": int(config["pixels"]),
            "LONG": layer.long,
            "PRECISION": layer.precision,
        },
        int(config["warps"]),
        int(config["stages"]),
    )
    return [stage, sum_of_parts(layer, parts.count, transpose=False)] if parts.several else [stage]
