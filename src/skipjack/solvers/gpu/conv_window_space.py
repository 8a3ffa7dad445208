"""What may vary where images with few channels are packed into windows."""

from __future__ import annotations

from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.gpu.architectures import KNOWN
from skipjack.solvers.gpu.conv_boxes import best_boxes, read, text, waste
from skipjack.solvers.gpu.conv_gather_space import sides
from skipjack.solvers.gpu.conv_layer import Layer

_MOST_SUMS = 128


def _names(layer: Layer, pixels: tuple[int, ...]) -> tuple[str, ...]:
    sizes = layer.sizes("result")
    found = [text(box) for each in pixels for box in best_boxes(sizes, each, 2, wide=True)]
    return tuple(dict.fromkeys(found))


def window_space(layer: Layer, device: Device, window: int) -> ParameterSpace:
    """Of the result."""
    most = KNOWN[device.arch].shared_bytes

    def fits(box: str, cols: int, warps: int, stages: int) -> bool:
        pixels = prod(read(box))
        shared = max((pixels + cols) * window * 2 * stages, pixels * cols * 2)
        return shared + 1024 <= most and 16 <= pixels * cols // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        # Short sums: what counts is that several blocks share a unit, and large tiles.
        box = read(str(config["box"]))
        area = prod(box) * int(config["cols"])
        short = abs(int(config["stages"]) - 3) * 0.05
        large = 0.2 if area > 128 * 128 else 64 * 64 / area
        return waste(layer.sizes("result"), box) * (1 + large + short)

    return ParameterSpace(
        [
            Parameter("box", _names(layer, (64, 128, 256))),
            Parameter("cols", sides(layer.k, 64, 256)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4)),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


def window_filter_space(layer: Layer, device: Device, window: int) -> ParameterSpace:
    """Of the filter's gradient."""
    most = KNOWN[device.arch].shared_bytes

    def fits(box: str, k: int, warps: int, stages: int) -> bool:
        shared = (k + window) * prod(read(box)) * 2 * stages
        return shared + 1024 <= most and 4 <= k * window // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        # Four blocks on each unit hide the short loops; more warps share too small a tile.
        box = read(str(config["box"]))
        slow = 0.4 * (config["warps"] == 8) + 0.1 * abs(4 - int(config["waves"])) / 2
        short = 0.02 * abs(int(config["stages"]) - 3) + 0.02 * (prod(box) == 64)
        return waste(layer.sizes("result"), box) * (1 + slow + short)

    return ParameterSpace(
        [
            Parameter("box", _names(layer, (64, 128))),
            Parameter("k", sides(layer.k, 64, 128)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5)),
            Parameter("waves", (4, 2, 8), stage="run"),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )
