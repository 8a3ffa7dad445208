"""Implicit products on boxes of pixels that the copy engine (TMA) loads, tap by tap."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN, Pointer, Scratch
from skipjack.operations import OUT, Role
from skipjack.solvers.gpu.conv.layer import (
    ConvLayer,
    SumParts,
    box_count,
    ceil_div,
    not_two_dimensional,
    parse_box,
)
from skipjack.solvers.gpu.conv.nchw_pointwise import reads_planes
from skipjack.solvers.gpu.conv.spaces import box_filter_space, box_space, tiled_sizes
from skipjack.solvers.gpu.conv.stages import (
    ALIGNED,
    box_constants,
    box_view,
    filter_constants,
    matrix_view,
    output_strides,
    pads_and_dilations,
    part_scratch,
    sum_of_parts,
    transposed_input,
    transposed_output,
    transposed_scratch,
)
from skipjack.solvers.gpu.triton import (
    KernelStage,
    LaunchArgument,
    StagedGpuSolver,
    array,
    integer,
    tma_array,
)

# The filter's gradient on boxes of pixels: a product for each tap, or for three taps of a row.


def filter_gradient(layer: ConvLayer, device: Device, config: Config) -> list[KernelStage]:
    """Transpose both inputs if they are NCHW, multiply, add up the parts."""
    before: list[KernelStage] = []
    if not layer.channels_last:
        before = [transposed_input(layer, "image", "result")]
    box = parse_box(str(config["box"]))
    tile_k, tile_c = int(config["k"]), int(config["c"])
    sizes = tiled_sizes(layer, False)
    taps = ceil_div(layer.geometry.taps, int(config["taps"]))
    tiles = ceil_div(layer.k, tile_k) * ceil_div(layer.c, tile_c) * taps
    boxes = box_count(sizes, box)
    parts = SumParts.of(boxes, tiles * layer.geometry.groups, device.units, int(config["waves"]))
    filter_ = layer.elements("filter")
    # For NCHW the sum also transposes taps and channels, even if there is a single part.
    several = parts.several or (not layer.channels_last and layer.geometry.taps > 1)
    out = array("fp32", part_scratch(layer, parts.count)) if several else array(layer.type, OUT)
    three = int(config["taps"]) == 3
    constants = filter_constants(layer)
    constants |= box_constants(box)
    constants |= {"BLOCK_K": tile_k, "BLOCK_C": tile_c}
    if three:
        del constants["X"]
    else:
        constants["FLAT"] = layer.flat
    stage = KernelStage(
        "gradient",
        "skipjack.solvers.gpu.kernels.conv.tma_filter",
        "conv_box_rows" if three else "conv_box_filter",
        (tiles, parts.count, layer.geometry.groups),
        {
            "image": _image(layer, config, tile_c),
            "result": _result(layer, config, tile_k),
            "out": out,
            "boxes": integer(boxes),
            "images": integer(layer.geometry.n),
            "rows": integer(sizes[1]),
            "columns": integer(sizes[2]),
            "k": integer(layer.k),
            "c": integer(layer.c),
            "groups": integer(layer.geometry.groups),
            "share": integer(parts.share),
            "part_stride": integer(filter_),
            **pads_and_dilations(layer),
        },
        constants,
        int(config["warps"]),
        int(config["stages"]),
    )
    after = [sum_of_parts(layer, parts.count, transpose=True)] if several else []
    return [*before, stage, *after]


def _gradient_place(layer: ConvLayer, role: Role) -> Pointer | Scratch:
    return (
        Pointer(layer.geometry.name(role))
        if layer.channels_last
        else transposed_scratch(layer, role)
    )


def _image(layer: ConvLayer, config: Config, channels: int) -> LaunchArgument:
    box, place = parse_box(str(config["box"])), _gradient_place(layer, "image")
    if layer.flat:
        return matrix_view(layer, "image", place, prod(box), channels)
    return box_view(layer, "image", place, box, channels, False)


def _result(layer: ConvLayer, config: Config, channels: int) -> LaunchArgument:
    place = _gradient_place(layer, "result")
    if layer.flat:
        return matrix_view(layer, "result", place, prod(parse_box(str(config["box"]))), channels)
    return array(layer.type, place)


# Convolutions on boxes of pixels that the copy engine (TMA) loads, tap by tap.


class TmaConvolution(StagedGpuSolver):
    """Reads NHWC arrays in place; NCHW arrays are transposed before and after."""

    name = "triton_conv_box"
    chains = True
    algorithm = "ImplicitGEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse what TMA cannot address."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine (TMA)"
        return not_two_dimensional(problem) or _refusal_of_layer(ConvLayer.of(problem))

    def promise(self, problem: Problem, device: Device) -> float:
        """The fastest in nearly all problems, except NCHW that can be read without a transpose."""
        return 0.0 if reads_planes(ConvLayer.of(problem)) else 1.5

    def space(self, problem: Problem, device: Device) -> Space:
        """Boxes, tiles, parts of long sums, warps and stages."""
        layer = ConvLayer.of(problem)
        if layer.direction == "wrw":
            return box_filter_space(layer, device)
        return box_space(layer, device)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """Transpose NCHW arrays, convolve, transpose the result back."""
        layer = ConvLayer.of(problem)
        if layer.direction == "wrw":
            return filter_gradient(layer, device, config)
        stages: list[KernelStage] = []
        if not layer.channels_last:
            other: Role | None = "filter" if layer.geometry.taps > 1 else None
            stages.append(transposed_input(layer, layer.given, other))
        stages.append(_convolved(layer, device, config))
        if not layer.channels_last and config["store"] == "box":
            stages.append(transposed_output(layer))
        return stages


def _refusal_of_layer(layer: ConvLayer) -> str:
    geometry = layer.geometry
    if geometry.c % ALIGNED or geometry.k % ALIGNED or layer.c % ALIGNED:
        return f"it needs channels in multiples of {ALIGNED}"
    if layer.sparse:
        return "for image gradients it cannot combine strides and dilations"
    for axis in (layer.high, layer.wide):
        if not layer.computes_image and axis.stride > 1 and axis.image % axis.stride:
            return "it needs an image whose size is a multiple of the stride"
    alone = (
        geometry.groups == 1
        and geometry.taps == 1
        and (layer.computes_image or layer.wide.stride == 1)
    )
    if layer.direction != "wrw" and layer.depth % 16 and not alone:
        return "it needs multiples of 16 channels to sum over"
    return ""


def _place(layer: ConvLayer, role: Role) -> Pointer | Scratch:
    """The array with channels after the pixels: itself, or its transposed copy."""
    if layer.channels_last or (role == "filter" and layer.geometry.taps == 1):
        return Pointer(layer.geometry.name(role))
    return transposed_scratch(layer, role)


def _convolved(layer: ConvLayer, device: Device, config: Config) -> KernelStage:
    geometry, box, store = layer.geometry, parse_box(str(config["box"])), str(config["store"])
    planes = store == "planes"
    flat = layer.flat and not planes
    tile_cols, tile_depth, walk = (int(config[name]) for name in ("cols", "depth", "walk"))
    sizes = tiled_sizes(layer, planes)
    high, wide = output_strides(layer)
    tiles = ceil_div(layer.cols, tile_cols) * box_count(sizes, box)
    block = (tile_depth, tile_cols) if layer.computes_image else (tile_cols, tile_depth)
    across = geometry.taps * layer.c
    place = (
        Pointer(OUT)
        if layer.channels_last or planes
        else transposed_scratch(layer, geometry.wanted)
    )
    out = array(layer.type, place)
    if store == "box":
        out = box_view(layer, geometry.wanted, place, box, tile_cols, flat)
    given = _place(layer, layer.given)
    images, rows, columns = sizes if flat else layer.sizes(geometry.wanted)
    programs = min(tiles, walk * device.units) if walk else tiles
    return KernelStage(
        "convolution",
        "skipjack.solvers.gpu.kernels.conv.tma",
        "conv_box_walk" if walk else "conv_box",
        (programs, high * wide, geometry.groups),
        {
            "given": box_view(layer, layer.given, given, box, tile_depth, flat),
            "weights": tma_array(
                layer.type, _place(layer, "filter"), (geometry.k, across), (across, 1), block
            ),
            "out": out,
            "images": integer(images),
            "rows": integer(rows),
            "columns": integer(columns),
            "cols": integer(layer.cols),
            "depth": integer(layer.depth),
            "groups": integer(geometry.groups),
            **pads_and_dilations(layer),
            **({"tiles": integer(tiles)} if walk else {}),
        },
        {
            **filter_constants(layer),
            "BACK": layer.computes_image,
            "STORE": store,
            **box_constants(box),
            "BLOCK_COLS": tile_cols,
            "BLOCK_DEPTH": tile_depth,
        },
        int(config["warps"]),
        int(config["stages"]),
    )
