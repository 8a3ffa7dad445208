"""The filter's gradient by boxes of pixels: a product for each tap, or for three of a row."""

from __future__ import annotations

from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.gpu.conv_arguments import box_constants, filter_constants, steps
from skipjack.solvers.gpu.conv_box_space import tiled_sizes
from skipjack.solvers.gpu.conv_boxes import ceil_div, count, read
from skipjack.solvers.gpu.conv_layer import Layer
from skipjack.solvers.gpu.conv_parts import Parts
from skipjack.solvers.gpu.conv_steps import part_scratch, scratch, summed, turned
from skipjack.solvers.gpu.conv_views import boxed, matrix
from skipjack.solvers.gpu.stage import Given, Stage, array, size


def gradient(layer: Layer, device: Device, config: Config) -> list[Stage]:
    """Turn both inputs if they lie the other way around, multiply, add up."""
    before: list[Stage] = []
    if not layer.last:
        before = [turned(layer, "image", "result")]
    box = read(str(config["box"]))
    tile_k, tile_c = int(config["k"]), int(config["c"])
    sizes = tiled_sizes(layer, False)
    taps = ceil_div(layer.geometry.taps, int(config["taps"]))
    tiles = ceil_div(layer.k, tile_k) * ceil_div(layer.c, tile_c) * taps
    boxes = count(sizes, box)
    parts = Parts.of(boxes, tiles * layer.geometry.groups, device.units, int(config["waves"]))
    filter_ = layer.elements("filter")
    # Taps that lie behind the channels are turned there by the sum, even of a single part.
    several = parts.several or (not layer.last and layer.geometry.taps > 1)
    out = array("fp32", part_scratch(layer, parts.count)) if several else array(layer.type, OUT)
    three = int(config["taps"]) == 3
    constants = filter_constants(layer)
    constants |= box_constants(box)
    constants |= {"BLOCK_K": tile_k, "BLOCK_C": tile_c}
    if three:
        del constants["X"]
    else:
        constants["FLAT"] = layer.flat
    stage = Stage(
        "gradient",
        "conv_box_rows" if three else "conv_box_filter",
        "conv_box_rows" if three else "conv_box_filter",
        (tiles, parts.count, layer.geometry.groups),
        {
            "image": _image(layer, config, tile_c),
            "result": _result(layer, config, tile_k),
            "out": out,
            "boxes": size(boxes),
            "images": size(layer.geometry.n),
            "rows": size(sizes[1]),
            "columns": size(sizes[2]),
            "k": size(layer.k),
            "c": size(layer.c),
            "groups": size(layer.geometry.groups),
            "share": size(parts.share),
            "part_stride": size(filter_),
            **steps(layer),
        },
        constants,
        int(config["warps"]),
        int(config["stages"]),
    )
    after = [summed(layer, parts.count, turn=True)] if several else []
    return [*before, stage, *after]


def _place(layer: Layer, role: Role) -> Pointer | Scratch:
    return Pointer(layer.geometry.name(role)) if layer.last else scratch(layer, role)


def _image(layer: Layer, config: Config, channels: int) -> Given:
    box, place = read(str(config["box"])), _place(layer, "image")
    if layer.flat:
        return matrix(layer, "image", place, prod(box), channels)
    return boxed(layer, "image", place, box, channels, False)


def _result(layer: Layer, config: Config, channels: int) -> Given:
    place = _place(layer, "result")
    if layer.flat:
        return matrix(layer, "result", place, prod(read(str(config["box"]))), channels)
    return array(layer.type, place)
