"""Convolutions by boxes of pixels that the copy engine brings, tap by tap."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.gpu.conv_arguments import box_constants, filter_constants, steps, strides
from skipjack.solvers.gpu.conv_box_filter import gradient
from skipjack.solvers.gpu.conv_box_space import box_filter_space, box_space, tiled_sizes
from skipjack.solvers.gpu.conv_boxes import ceil_div, count, read
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.conv_planes import reads_planes
from skipjack.solvers.gpu.conv_steps import scratch, turned, turned_back
from skipjack.solvers.gpu.conv_views import ALIGNED, boxed
from skipjack.solvers.gpu.stage import Stage, StagedGpuSolver, array, blocks, size


class BoxConvolution(StagedGpuSolver):
    """Channels behind the pixels as they lie; others are turned around before and after."""

    name = "triton_conv_box"
    chains = True
    algorithm = "ImplicitGEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """What the copy engine cannot address."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine for blocks"
        return not_two_dimensional(problem) or _not_boxed(Layer.of(problem))

    def promise(self, problem: Problem, device: Device) -> float:
        """The fastest way nearly everywhere; planes that need no turn are not turned."""
        return 0.0 if reads_planes(Layer.of(problem)) else 1.5

    def space(self, problem: Problem, device: Device) -> Space:
        """Boxes, tiles, parts of long sums, warps and stages."""
        layer = Layer.of(problem)
        if layer.direction == "wrw":
            return box_filter_space(layer, device)
        return box_space(layer, device)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """Turn what lies the other way around, convolve, turn back."""
        layer = Layer.of(problem)
        if layer.direction == "wrw":
            return gradient(layer, device, config)
        stages: list[Stage] = []
        if not layer.last:
            other: Role | None = "filter" if layer.geometry.taps > 1 else None
            stages.append(turned(layer, layer.given, other))
        stages.append(_convolved(layer, device, config))
        if not layer.last and config["store"] == "box":
            stages.append(turned_back(layer))
        return stages


def _not_boxed(layer: Layer) -> str:
    geometry = layer.geometry
    if geometry.c % ALIGNED or geometry.k % ALIGNED or layer.c % ALIGNED:
        return f"it needs channels in multiples of {ALIGNED}"
    if layer.sparse:
        return "backwards it cannot do strides and dilations together"
    for axis in (layer.high, layer.wide):
        if not layer.back and axis.stride > 1 and axis.image % axis.stride:
            return "it needs an image that the stride divides"
    alone = geometry.groups == 1 and geometry.taps == 1 and (layer.back or layer.wide.stride == 1)
    if layer.direction != "wrw" and layer.depth % 16 and not alone:
        return "it needs multiples of 16 channels to sum over"
    return ""


def _place(layer: Layer, role: Role) -> Pointer | Scratch:
    """Where an array lies with its channels behind the pixels."""
    if layer.last or (role == "filter" and layer.geometry.taps == 1):
        return Pointer(layer.geometry.name(role))
    return scratch(layer, role)


def _convolved(layer: Layer, device: Device, config: Config) -> Stage:
    geometry, box, store = layer.geometry, read(str(config["box"])), str(config["store"])
    planes = store == "planes"
    flat = layer.flat and not planes
    tile_cols, tile_depth, walk = (int(config[name]) for name in ("cols", "depth", "walk"))
    sizes = tiled_sizes(layer, planes)
    high, wide = strides(layer)
    tiles = ceil_div(layer.cols, tile_cols) * count(sizes, box)
    block = (tile_depth, tile_cols) if layer.back else (tile_cols, tile_depth)
    across = geometry.taps * layer.c
    place = Pointer(OUT) if layer.last or planes else scratch(layer, geometry.wanted)
    out = array(layer.type, place)
    if store == "box":
        out = boxed(layer, geometry.wanted, place, box, tile_cols, flat)
    given = _place(layer, layer.given)
    images, rows, columns = sizes if flat else layer.sizes(geometry.wanted)
    programs = min(tiles, walk * device.units) if walk else tiles
    return Stage(
        "convolution",
        "conv_box",
        "conv_box_walk" if walk else "conv_box",
        (programs, high * wide, geometry.groups),
        {
            "given": boxed(layer, layer.given, given, box, tile_depth, flat),
            "weights": blocks(
                layer.type, _place(layer, "filter"), (geometry.k, across), (across, 1), block
            ),
            "out": out,
            "images": size(images),
            "rows": size(rows),
            "columns": size(columns),
            "cols": size(layer.cols),
            "depth": size(layer.depth),
            "groups": size(geometry.groups),
            **steps(layer),
            **({"tiles": size(tiles)} if walk else {}),
        },
        {
            **filter_constants(layer),
            "BACK": layer.back,
            "STORE": store,
            **box_constants(box),
            "BLOCK_COLS": tile_cols,
            "BLOCK_DEPTH": tile_depth,
        },
        int(config["warps"]),
        int(config["stages"]),
    )
