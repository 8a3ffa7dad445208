"""What may vary where pixels are gathered through their addresses."""

from __future__ import annotations

from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.gpu.architectures import KNOWN
from skipjack.solvers.gpu.conv_boxes import ceil_div
from skipjack.solvers.gpu.conv_estimate import filter_ns, tile_ns
from skipjack.solvers.gpu.conv_layer import Layer

_MOST_SUMS = 128
"""Of a thread; with more, registers spill."""
_WARPS = (4, 8)


def power(value: int, least: int, most: int) -> int:
    """The power of two that covers a value, within limits."""
    return max(least, min(most, 1 << (value - 1).bit_length()))


def sides(value: int, least: int, most: int) -> tuple[int, ...]:
    """Sides of a tile that are not much larger than what they cover."""
    cover = power(value, least, most)
    return tuple(side for side in (16, 32, 64, 128, 256) if least <= side <= cover)


def least_sums(usual: int, largest: int, threads: int) -> int:
    """Of a thread; with fewer, threads idle. Small problems have none but such tiles."""
    return min(usual, largest // threads)


def gather_space(layer: Layer, device: Device) -> ParameterSpace:
    """Of the result and of the image."""
    limits = KNOWN[device.arch]
    images, rows, columns = layer.sizes(layer.geometry.wanted)
    each = layer.element_bytes
    heights, widths = sides(images * rows * columns, 16, 256), sides(layer.cols, 16, 256)
    least = least_sums(8, heights[-1] * widths[-1], _WARPS[0] * limits.warp)
    depths = [d for d in (16, 32, 64, 128) if d <= power(layer.depth, 16, 128)][-3:]

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


def gather_filter_space(layer: Layer, device: Device) -> ParameterSpace:
    """Of the filter."""
    limits = KNOWN[device.arch]
    each = layer.element_bytes
    heights, widths = sides(layer.k, 16, 256), sides(layer.c * layer.geometry.taps, 16, 256)
    least = least_sums(2, heights[-1] * widths[-1], _WARPS[0] * limits.warp)

    def fits(k: int, c: int, pixels: int, warps: int, stages: int) -> bool:
        shared = (k + c) * pixels * each * max(1, stages - 1)
        # Addresses of both operands are kept beside the sums.
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
            Parameter("waves", (1, 2, 4), stage="run"),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )
