"""Implicit products by plain addresses: any convolution in two dimensions, on every GPU."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.operations.conv_geometry import OUT
from skipjack.solvers.gpu.conv_arguments import filter_constants, steps, strides
from skipjack.solvers.gpu.conv_boxes import ceil_div
from skipjack.solvers.gpu.conv_gather_space import gather_filter_space, gather_space
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.conv_parts import Parts
from skipjack.solvers.gpu.conv_steps import part_scratch, summed
from skipjack.solvers.gpu.stage import Stage, StagedGpuSolver, array, size

_MODULE = "conv_gather"


class GatherConvolution(StagedGpuSolver):
    """Pixels are gathered through their addresses; groups, strides and dilations as they come."""

    name = "triton_conv_gather"
    chains = True
    algorithm = "ImplicitGEMM"
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Other operations, three dimensions, unknown GPUs."""
        if device.arch not in KNOWN:
            return f"nothing is known of {device.arch}"
        return not_two_dimensional(problem)

    def promise(self, problem: Problem, device: Device) -> float:
        """The only way on many GPUs; where blocks can be copied, others are faster."""
        layer = Layer.of(problem)
        if layer.geometry.depthwise:
            return 0.3
        few = layer.geometry.groups == 1 and layer.geometry.c <= 8
        even = layer.depth % 16 == 0 and layer.cols % 8 == 0
        if not KNOWN[device.arch].tma or layer.element_bytes != 2:
            return 1.0
        return 0.3 if few else 0.0 if even else 1.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, parts of long sums, warps and stages."""
        layer = Layer.of(problem)
        if layer.direction == "wrw":
            return gather_filter_space(layer, device)
        return gather_space(layer, device)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The product, and what adds up parts of it."""
        layer = Layer.of(problem)
        if layer.direction != "wrw":
            return [_convolved(layer, config)]
        return _gradient(layer, device, config)


def _convolved(layer: Layer, config: Config) -> Stage:
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    _, in_rows, in_columns = layer.sizes(layer.given)
    high, wide = (1, 1) if layer.sparse else strides(layer)
    pixels = images * ceil_div(rows, high) * ceil_div(columns, wide)
    tile_pixels, tile_cols = int(config["pixels"]), int(config["cols"])
    tiles = ceil_div(pixels, tile_pixels) * ceil_div(layer.cols, tile_cols)
    names = layer.geometry
    return Stage(
        "convolution",
        _MODULE,
        "conv_gather",
        (tiles, high * wide, names.groups),
        {
            "given": array(layer.type, names.name(layer.given)),
            "weights": array(layer.type, names.name("filter")),
            "out": array(layer.type, OUT),
            "images": size(images),
            "rows": size(rows),
            "columns": size(columns),
            "in_rows": size(in_rows),
            "in_columns": size(in_columns),
            "cols": size(layer.cols),
            "depth": size(layer.depth),
            "groups": size(names.groups),
            **steps(layer),
        },
        {
            **filter_constants(layer),
            "BACK": layer.back,
            "LAST": layer.last,
            "SPARSE": layer.sparse,
            "BLOCK_PIXELS": tile_pixels,
            "BLOCK_COLS": tile_cols,
            "BLOCK_DEPTH": int(config["depth"]),
            "PRECISION": layer.precision,
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _gradient(layer: Layer, device: Device, config: Config) -> list[Stage]:
    images, rows, columns = layer.sizes("result")
    _, in_rows, in_columns = layer.sizes("image")
    pixels = images * rows * columns
    tile_k, tile_c = int(config["k"]), int(config["c"])
    tiles = ceil_div(layer.k, tile_k) * ceil_div(layer.c * layer.geometry.taps, tile_c)
    tiles *= layer.geometry.groups
    chunks = ceil_div(pixels, int(config["pixels"]))
    parts = Parts.of(chunks, tiles, device.units, int(config["waves"]))
    names = layer.geometry
    # Parts are laid out as the filter is; the sum has nothing to turn.
    out = array("fp32", part_scratch(layer, parts.count)) if parts.several else None
    stage = Stage(
        "gradient",
        _MODULE,
        "conv_gather_filter",
        (tiles // names.groups, parts.count, names.groups),
        {
            "image": array(layer.type, names.name("image")),
            "result": array(layer.type, names.name("result")),
            "out": out or array(layer.type, OUT),
            "pixels": size(pixels),
            "rows": size(rows),
            "columns": size(columns),
            "in_rows": size(in_rows),
            "in_columns": size(in_columns),
            "k": size(layer.k),
            "c": size(layer.c),
            "groups": size(names.groups),
            "share": size(parts.share),
            "part_stride": size(layer.elements("filter")),
            **steps(layer),
        },
        {
            **filter_constants(layer),
            "LAST": layer.last,
            "BLOCK_K": tile_k,
            "BLOCK_C": tile_c,
            "BLOCK_PIXELS": int(config["pixels"]),
            "LONG": layer.long,
            "PRECISION": layer.precision,
        },
        int(config["warps"]),
        int(config["stages"]),
    )
    return [stage, summed(layer, parts.count, turn=False)] if parts.several else [stage]
