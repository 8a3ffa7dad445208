"""Depthwise convolutions: at the speed of memory, without matrix units."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.gpu.conv_arguments import filter_constants, steps
from skipjack.solvers.gpu.conv_boxes import ceil_div
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.conv_parts import Parts
from skipjack.solvers.gpu.conv_steps import part_scratch, summed
from skipjack.solvers.gpu.stage import Given, Stage, StagedGpuSolver, array, size

_MOST_TAPS = 128


class DepthwiseConvolution(StagedGpuSolver):
    """Every channel by itself, possibly giving several."""

    name = "triton_conv_depthwise"
    chains = True
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Groups of several channels, and filters that would be unrolled too far."""
        if device.arch not in KNOWN:
            return f"nothing is known of {device.arch}"
        if reason := not_two_dimensional(problem):
            return reason
        layer = Layer.of(problem)
        if layer.c != 1:
            return "it needs one channel in each group"
        if layer.geometry.taps * layer.k > _MOST_TAPS:
            return f"it unrolls filters of at most {_MOST_TAPS} taps"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Matrix units have nothing to do here."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Blocks of pixels and channels, warps, parts of long sums."""
        layer = Layer.of(problem)
        channels = (16, 32, 64, 128) if layer.last else (1, 2, 4)
        wrw = layer.direction == "wrw"
        every = layer.channels("result" if wrw else layer.geometry.wanted)

        def fits(pixels: int, channels: int, warps: int) -> bool:
            return 4 <= pixels * channels // (warps * 32) <= 32

        def estimate(config: Config) -> float:
            block = int(config["channels"])
            padded = ceil_div(every, block) * block / every
            each = int(config["pixels"]) * block // (int(config["warps"]) * 32)
            # Side by side a thread reads 16 bytes; eight elements of it keep few in flight.
            return padded * (1 + abs(each - 8) / 16) + (0.1 if config["warps"] == 8 else 0)

        return ParameterSpace(
            [
                Parameter("pixels", (16, 32, 64, 128, 256, 512)),
                Parameter("channels", channels),
                Parameter("warps", (4, 8)),
                Parameter("waves", (4, 8, 2) if wrw else (1,), stage="run"),
            ],
            [fits],
            estimate,
            default_by_order=True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The sums, and what adds up parts of them."""
        layer = Layer.of(problem)
        if layer.direction == "wrw":
            return _gradient(layer, device, config)
        return [_convolved(layer, config)]


def _sizes(layer: Layer, out: Role, given: Role) -> dict[str, Given]:
    _, rows, columns = layer.sizes(out)
    _, in_rows, in_columns = layer.sizes(given)
    return {
        "rows": size(rows),
        "columns": size(columns),
        "in_rows": size(in_rows),
        "in_columns": size(in_columns),
        "channels": size(layer.channels(out)),
    }


def _convolved(layer: Layer, config: Config) -> Stage:
    wanted, geometry = layer.geometry.wanted, layer.geometry
    pixels, channels = int(config["pixels"]), int(config["channels"])
    blocks = ceil_div(prod(layer.sizes(wanted)), pixels)
    return Stage(
        "convolution",
        "conv_depthwise",
        "conv_depthwise",
        (blocks * ceil_div(layer.channels(wanted), channels),),
        {
            "given": array(layer.type, geometry.name(layer.given)),
            "weights": array(layer.type, geometry.name("filter")),
            "out": array(layer.type, OUT),
            "images": size(geometry.n),
            **_sizes(layer, wanted, layer.given),
            **steps(layer),
        },
        {
            "TIMES": layer.k,
            **filter_constants(layer),
            "BACK": layer.back,
            "LAST": layer.last,
            "BLOCK_PIXELS": pixels,
            "BLOCK_CHANNELS": channels,
        },
        int(config["warps"]),
    )


def _gradient(layer: Layer, device: Device, config: Config) -> list[Stage]:
    geometry = layer.geometry
    pixels, channels = int(config["pixels"]), int(config["channels"])
    every = prod(layer.sizes("result"))
    programs = ceil_div(geometry.k, channels) * geometry.taps
    parts = Parts.of(ceil_div(every, pixels), programs, device.units, int(config["waves"]))
    out = array(layer.type, OUT)
    if parts.several:
        out = array("fp32", part_scratch(layer, parts.count))
    stage = Stage(
        "gradient",
        "conv_depthwise",
        "conv_depthwise_filter",
        (programs, parts.count),
        {
            "image": array(layer.type, geometry.name("image")),
            "result": array(layer.type, geometry.name("result")),
            "out": out,
            "pixels": size(every),
            **_sizes(layer, "result", "image"),
            "share": size(parts.share),
            **steps(layer),
        },
        {
            "TIMES": layer.k,
            **filter_constants(layer),
            "LAST": layer.last,
            "BLOCK_PIXELS": pixels,
            "BLOCK_CHANNELS": channels,
        },
        int(config["warps"]),
    )
    return [stage, summed(layer, parts.count, turn=False)] if parts.several else [stage]
