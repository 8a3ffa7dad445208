"""What may vary where the copy engine brings boxes of pixels."""

from __future__ import annotations

from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.gpu.architectures import KNOWN
from skipjack.solvers.gpu.conv_arguments import strides
from skipjack.solvers.gpu.conv_boxes import best_boxes, ceil_div, count, read, text, waste
from skipjack.solvers.gpu.conv_estimate import filter_ns, planes_ns, tile_ns
from skipjack.solvers.gpu.conv_gather_space import sides
from skipjack.solvers.gpu.conv_layer import Layer

_PIXELS = (64, 128, 256)
_MOST_SUMS = 128
"""Of a thread; with more, registers spill."""


def tiled_sizes(layer: Layer, direct: bool) -> tuple[int, int, int]:
    """Images, rows and columns that boxes cover.

    All pixels are one row where they are made each of one pixel; not if they are written
    `direct`ly into planes.
    """
    role = "result" if layer.direction == "wrw" else layer.geometry.wanted
    images, rows, columns = layer.sizes(role)
    if layer.flat and not direct:
        return 1, 1, images * rows * columns
    high, wide = strides(layer)
    return images, ceil_div(rows, high), ceil_div(columns, wide)


def box_space(layer: Layer, device: Device) -> ParameterSpace:
    """Of the result and of the image."""
    most = KNOWN[device.arch].shared_bytes
    planes = not layer.last
    names = [
        text(box)
        for pixels in _PIXELS
        for direct in ((False, True) if planes else (False,))
        for box in best_boxes(tiled_sizes(layer, direct), pixels, 2, wide=direct)
    ]

    def fits(
        box: str, cols: int, depth: int, warps: int, stages: int, store: str, walk: int
    ) -> bool:
        sides_ = read(box)
        pixels = prod(sides_)
        if layer.flat and store != "planes" and sides_[:2] != (1, 1):
            return False
        if store == "box" and not _stored_in_boxes(layer, cols):
            return False
        stored = 0 if store == "last" else pixels * cols * 2
        held = (pixels + cols) * depth * 2 * stages
        shared = held + stored if walk else max(held, stored)
        if walk == 2 and 2 * (shared + 2048) > most:
            return False
        return shared + 2048 <= most and 16 <= pixels * cols // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        box, store = read(str(config["box"])), str(config["store"])
        wasted = waste(tiled_sizes(layer, store == "planes"), box)
        found = tile_ns(layer, device, prod(box), config, wasted)
        return found + planes_ns(layer, store, box[2]) if planes else found

    stores = ("planes", "box") if planes else ("box", "last")
    # Of strided images some classes of pixels have no tap: nothing to walk on with.
    return ParameterSpace(
        [
            Parameter("box", tuple(dict.fromkeys(names))),
            Parameter("cols", sides(layer.cols, 64, 256)),
            Parameter("depth", _depths(layer)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5, 6)),
            Parameter("store", stores),
            Parameter("walk", (0, 1, 2) if layer.places == 1 else (0,)),
            Parameter("early", (planes,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


def _stored_in_boxes(layer: Layer, cols: int) -> bool:
    """Whether no box of channels runs over into others, and strides divide what is stored."""
    if layer.cols % cols and (layer.geometry.groups > 1 or layer.places > 1):
        return False
    return not layer.back or not any(a.image % a.stride for a in (layer.high, layer.wide))


def _depths(layer: Layer) -> tuple[int, ...]:
    """Channels of a step; they end where a group or a tap ends, if there is more behind them."""
    found = tuple(depth for depth in (128, 64, 32, 16) if layer.depth % depth == 0)
    return found[:2] or (64,)


def box_filter_space(layer: Layer, device: Device) -> ParameterSpace:
    """Of the filter."""
    most = KNOWN[device.arch].shared_bytes
    sizes = tiled_sizes(layer, False)
    names = [
        text(box)
        for pixels in (64, 128)
        for box in best_boxes(sizes, pixels, 1 if layer.flat else 2)
    ]

    def fits(box: str, k: int, c: int, warps: int, stages: int, taps: int) -> bool:
        pixels = prod(read(box))
        if layer.flat and read(box)[:2] != (1, 1):
            return False
        shared = (k + c * taps) * pixels * 2 * stages
        sums = k * c * taps // (warps * 32)
        return shared + 1024 <= most and 16 <= sums <= (192 if taps == 3 else _MOST_SUMS)

    def estimate(config: Config) -> float:
        box = read(str(config["box"]))
        taken = config.replace(pixels=prod(box))
        return filter_ns(layer, device, taken, int(config["taps"]), count(sizes, box))

    return ParameterSpace(
        [
            Parameter("box", tuple(dict.fromkeys(names))),
            Parameter("k", sides(layer.k, 64, 256)),
            Parameter("c", sides(layer.c, 64, 256)),
            Parameter("taps", (1, 3) if layer.wide.filter == 3 else (1,)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5)),
            Parameter("waves", (1, 2, 3, 4), stage="run"),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )
