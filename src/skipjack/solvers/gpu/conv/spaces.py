"""The spaces of the solvers that gather pixels, load boxes by TMA, or pack images with few
channels.
"""

from __future__ import annotations

from math import prod

from skipjack.core import Config, Device, Parameter, ParameterSpace
from skipjack.gpu import KNOWN
from skipjack.solvers.gpu.conv.estimate import filter_ns, planes_ns, tile_ns
from skipjack.solvers.gpu.conv.layer import (
    ConvLayer,
    best_boxes,
    box_count,
    box_text,
    box_waste,
    ceil_div,
    parse_box,
)
from skipjack.solvers.gpu.conv.stages import output_strides

# The spaces of the solver that gathers pixels by their addresses.

_MOST_SUMS = 128
"""Accumulators of a thread; with more, registers spill."""
_WARPS = (4, 8)


def covering_power(value: int, least: int, most: int) -> int:
    """The smallest power of two that covers a value, within limits."""
    return max(least, min(most, 1 << (value - 1).bit_length()))


def tile_sides(value: int, least: int, most: int) -> tuple[int, ...]:
    """Sides of a tile, up to the smallest that covers a value."""
    cover = covering_power(value, least, most)
    return tuple(side for side in (16, 32, 64, 128, 256) if least <= side <= cover)


def least_sums(usual: int, largest: int, threads: int) -> int:
    """Least accumulators of a thread; with fewer, threads idle, as they do in small problems."""
    return min(usual, largest // threads)


def gather_space(layer: ConvLayer, device: Device) -> ParameterSpace:
    """The space for the result and for the gradient of the image."""
    limits = KNOWN[device.arch]
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    each = layer.element_bytes
    heights, widths = tile_sides(images * rows * columns, 16, 256), tile_sides(layer.cols, 16, 256)
    least = least_sums(8, heights[-1] * widths[-1], _WARPS[0] * limits.warp)
    depths = [d for d in (16, 32, 64, 128) if d <= covering_power(layer.depth, 16, 128)][-3:]

    def fits(pixels: int, cols: int, depth: int, warps: int, stages: int) -> bool:
        shared = (pixels + cols) * depth * each * max(1, stages - 1)
        sums = pixels * cols // (warps * limits.warp)
        return shared <= limits.shared_bytes and least <= sums <= _MOST_SUMS

    def estimate(config: Config) -> float:
        return tile_ns(layer, device, int(config["pixels"]), config, 1.0)

    return ParameterSpace(
        [
            Parameter("pixels", heights),
            Parameter("cols", widths),
            Parameter("depth", tuple(depths)),
            Parameter("warps", _WARPS),
            Parameter("stages", (2, 3, 4, 5) if limits.kind == "cuda" else (1, 2)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


def gather_filter_space(layer: ConvLayer, device: Device) -> ParameterSpace:
    """The space for the gradient of the filter."""
    limits = KNOWN[device.arch]
    each = layer.element_bytes
    heights, widths = (
        tile_sides(layer.k, 16, 256),
        tile_sides(layer.c * layer.geometry.taps, 16, 256),
    )
    least = least_sums(2, heights[-1] * widths[-1], _WARPS[0] * limits.warp)

    def fits(k: int, c: int, pixels: int, warps: int, stages: int) -> bool:
        shared = (k + c) * pixels * each * max(1, stages - 1)
        # Addresses of both operands are kept in registers together with the sums.
        threads = warps * limits.warp
        registers = (k * c + (k + c) * pixels) // threads
        if k * c < least * threads:
            return False
        return shared <= limits.shared_bytes and registers <= _MOST_SUMS

    def estimate(config: Config) -> float:
        # Channels and taps are one axis here.
        chunks = ceil_div(prod(layer.sizes("result")), int(config["pixels"]))
        covered = ceil_div(layer.c * layer.geometry.taps, int(config["c"])) * int(config["c"])
        each = ceil_div(layer.c, int(config["c"])) * int(config["c"]) * layer.geometry.taps
        return filter_ns(layer, device, config, 1, chunks) * covered / each

    return ParameterSpace(
        [
            Parameter("k", heights),
            Parameter("c", widths),
            Parameter("pixels", (32, 64, 128)),
            Parameter("warps", _WARPS),
            Parameter("stages", (2, 3, 4) if limits.kind == "cuda" else (1, 2)),
            Parameter("waves", (1, 2, 4)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


# The spaces of the solver that loads boxes of pixels by TMA.

_PIXELS = (64, 128, 256)


def tiled_sizes(layer: ConvLayer, direct: bool) -> tuple[int, int, int]:
    """Images, rows and columns that boxes cover.

    If each pixel depends on one pixel only, all pixels are one row, unless the result is written
    `direct`ly as NCHW.
    """
    role = "result" if layer.direction == "wrw" else layer.geometry.wanted
    images, rows, columns = layer.sizes(role)
    if layer.flat and not direct:
        return 1, 1, images * rows * columns
    high, wide = output_strides(layer)
    return images, ceil_div(rows, high), ceil_div(columns, wide)


def box_space(layer: ConvLayer, device: Device) -> ParameterSpace:
    """The space for the result and for the gradient of the image."""
    most = KNOWN[device.arch].shared_bytes
    planes = not layer.channels_last
    names = [
        box_text(box)
        for pixels in _PIXELS
        for direct in ((False, True) if planes else (False,))
        for box in best_boxes(tiled_sizes(layer, direct), pixels, 2, wide=direct)
    ]

    def fits(
        box: str, cols: int, depth: int, warps: int, stages: int, store: str, walk: int
    ) -> bool:
        sides_ = parse_box(box)
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
        box, store = parse_box(str(config["box"])), str(config["store"])
        wasted = box_waste(tiled_sizes(layer, store == "planes"), box)
        found = tile_ns(layer, device, prod(box), config, wasted)
        return found + planes_ns(layer, store, box[2]) if planes else found

    stores = ("planes", "box") if planes else ("box", "last")
    # Strided image gradients have pixels without a tap, which persistent programs cannot handle.
    return ParameterSpace(
        [
            Parameter("box", tuple(dict.fromkeys(names))),
            Parameter("cols", tile_sides(layer.cols, 64, 256)),
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


def _stored_in_boxes(layer: ConvLayer, cols: int) -> bool:
    """Whether blocks of channels stay within a group, and strides divide the stored sizes."""
    if layer.cols % cols and (layer.geometry.groups > 1 or layer.places > 1):
        return False
    return not layer.computes_image or not any(a.image % a.stride for a in (layer.high, layer.wide))


def _depths(layer: ConvLayer) -> tuple[int, ...]:
    """Channels of a step; they divide the channels of a group, so that no step crosses its end."""
    found = tuple(depth for depth in (128, 64, 32, 16) if layer.depth % depth == 0)
    return found[:2] or (64,)


def box_filter_space(layer: ConvLayer, device: Device) -> ParameterSpace:
    """The space for the gradient of the filter."""
    most = KNOWN[device.arch].shared_bytes
    sizes = tiled_sizes(layer, False)
    names = [
        box_text(box)
        for pixels in (64, 128)
        for box in best_boxes(sizes, pixels, 1 if layer.flat else 2)
    ]

    def fits(box: str, k: int, c: int, warps: int, stages: int, taps: int) -> bool:
        pixels = prod(parse_box(box))
        if layer.flat and parse_box(box)[:2] != (1, 1):
            return False
        shared = (k + c * taps) * pixels * 2 * stages
        sums = k * c * taps // (warps * 32)
        return shared + 1024 <= most and 16 <= sums <= (192 if taps == 3 else _MOST_SUMS)

    def estimate(config: Config) -> float:
        box = parse_box(str(config["box"]))
        taken = config.replace(pixels=prod(box))
        return filter_ns(layer, device, taken, int(config["taps"]), box_count(sizes, box))

    return ParameterSpace(
        [
            Parameter("box", tuple(dict.fromkeys(names))),
            Parameter("k", tile_sides(layer.k, 64, 256)),
            Parameter("c", tile_sides(layer.c, 64, 256)),
            Parameter("taps", (1, 3) if layer.wide.filter == 3 else (1,)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5)),
            Parameter("waves", (1, 2, 3, 4)),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


# The spaces of the solver that packs images with few channels into windows.


def _window_boxes(layer: ConvLayer, pixels: tuple[int, ...]) -> tuple[str, ...]:
    sizes = layer.sizes("result")
    found = [box_text(box) for each in pixels for box in best_boxes(sizes, each, 2, wide=True)]
    return tuple(dict.fromkeys(found))


def window_space(layer: ConvLayer, device: Device, window: int) -> ParameterSpace:
    """The space for the result."""
    most = KNOWN[device.arch].shared_bytes

    def fits(box: str, cols: int, warps: int, stages: int) -> bool:
        pixels = prod(parse_box(box))
        shared = max((pixels + cols) * window * 2 * stages, pixels * cols * 2)
        return shared + 1024 <= most and 16 <= pixels * cols // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        # Sums are short: several blocks on a unit and large tiles matter most.
        box = parse_box(str(config["box"]))
        area = prod(box) * int(config["cols"])
        short = abs(int(config["stages"]) - 3) * 0.05
        large = 0.2 if area > 128 * 128 else 64 * 64 / area
        return box_waste(layer.sizes("result"), box) * (1 + large + short)

    return ParameterSpace(
        [
            Parameter("box", _window_boxes(layer, (64, 128, 256))),
            Parameter("cols", tile_sides(layer.k, 64, 256)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4)),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


def window_filter_space(layer: ConvLayer, device: Device, window: int) -> ParameterSpace:
    """The space for the gradient of the filter."""
    most = KNOWN[device.arch].shared_bytes

    def fits(box: str, k: int, warps: int, stages: int) -> bool:
        shared = (k + window) * prod(parse_box(box)) * 2 * stages
        return shared + 1024 <= most and 4 <= k * window // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        # Four blocks on each unit hide the short loops; more warps share too small a tile.
        box = parse_box(str(config["box"]))
        slow = 0.4 * (config["warps"] == 8) + 0.1 * abs(4 - int(config["waves"])) / 2
        short = 0.02 * abs(int(config["stages"]) - 3) + 0.02 * (prod(box) == 64)
        return box_waste(layer.sizes("result"), box) * (1 + slow + short)

    return ParameterSpace(
        [
            Parameter("box", _window_boxes(layer, (64, 128))),
            Parameter("k", tile_sides(layer.k, 64, 128)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5)),
            Parameter("waves", (4, 2, 8)),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )
