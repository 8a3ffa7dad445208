"""Depthwise convolutions: at the speed of memory, without matrix units."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.gpu import KNOWN
from skipjack.operations import OUT, Role
from skipjack.solvers.gpu.conv.layer import ConvLayer, SumParts, ceil_div, not_two_dimensional
from skipjack.solvers.gpu.conv.stages import (
    filter_constants,
    pads_and_dilations,
    part_scratch,
    sum_of_parts,
)
from skipjack.solvers.gpu.triton import KernelStage, LaunchArgument, StagedGpuSolver, array, integer

_MOST_TAPS = 128


class DepthwiseConvolution(StagedGpuSolver):
    """Each channel is convolved on its own, with one or several results."""

    name = "triton_conv_depthwise"
    chains = True
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse groups of several channels, and filters too large to unroll."""
        if device.arch not in KNOWN:
            return f"the limits of {device.arch} are not known"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if layer.c != 1:
            return "it needs one channel in each group"
        if layer.geometry.taps * layer.k > _MOST_TAPS:
            return f"it unrolls filters of at most {_MOST_TAPS} taps"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Matrix units would be of no use here."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Blocks of pixels and channels, warps, parts of long sums."""
        layer = ConvLayer.of(problem)
        channels = (16, 32, 64, 128) if layer.channels_last else (1, 2, 4)
        wrw = layer.direction == "wrw"
        every = layer.channels("result" if wrw else layer.geometry.wanted)

        def fits(pixels: int, channels: int, warps: int) -> bool:
            return 4 <= pixels * channels // (warps * 32) <= 32

        def estimate(config: Config) -> float:
            block = int(config["channels"])
            padded = ceil_div(every, block) * block / every
            each = int(config["pixels"]) * block // (int(config["warps"]) * 32)
            # A thread reads 16 adjacent bytes; with 8 elements each, few reads are in flight.
            return padded * (1 + abs(each - 8) / 16) + (0.1 if config["warps"] == 8 else 0)

        return ParameterSpace(
            [
                Parameter("pixels", (16, 32, 64, 128, 256, 512)),
                Parameter("channels", channels),
                Parameter("warps", (4, 8)),
                Parameter("waves", (4, 8, 2) if wrw else (1,)),
            ],
            [fits],
            estimate,
            default_by_order=True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The sums, and the kernel that adds up their parts."""
        layer = ConvLayer.of(problem)
        if layer.direction == "wrw":
            return _gradient(layer, device, config)
        return [_convolved(layer, config)]


def _sizes(layer: ConvLayer, out: Role, given: Role) -> dict[str, LaunchArgument]:
    _, rows, columns = layer.sizes(out)
    _, in_rows, in_columns = layer.sizes(given)
    return {
        "rows": integer(rows),
        "columns": integer(columns),
        "in_rows": integer(in_rows),
        "in_columns": integer(in_columns),
        "channels": integer(layer.channels(out)),
    }


def _convolved(layer: ConvLayer, config: Config) -> KernelStage:
    wanted, geometry = layer.geometry.wanted, layer.geometry
    pixels, channels = int(config["pixels"]), int(config["channels"])
    blocks = ceil_div(prod(layer.sizes(wanted)), pixels)
    return KernelStage(
        "convolution",
        "skipjack.solvers.gpu.kernels.conv.depthwise",
        "conv_depthwise",
        (blocks * ceil_div(layer.channels(wanted), channels),),
        {
            "given": array(layer.type, geometry.name(layer.given)),
            "weights": array(layer.type, geometry.name("filter")),
            "out": array(layer.type, OUT),
            "images": integer(geometry.n),
            **_sizes(layer, wanted, layer.given),
            **pads_and_dilations(layer),
        },
        {
            "TIMES": layer.k,
            **filter_constants(layer),
            "BACK": layer.computes_image,
            "LAST": layer.channels_last,
            "BLOCK_PIXELS": pixels,
            "BLOCK_CHANNELS": channels,
        },
        int(config["warps"]),
    )


def _gradient(layer: ConvLayer, device: Device, config: Config) -> list[KernelStage]:
    geometry = layer.geometry
    pixels, channels = int(config["pixels"]), int(config["channels"])
    every = prod(layer.sizes("result"))
    programs = ceil_div(geometry.k, channels) * geometry.taps
    parts = SumParts.of(ceil_div(every, pixels), programs, device.units, int(config["waves"]))
    out = array(layer.type, OUT)
    if parts.several:
        out = array("fp32", part_scratch(layer, parts.count))
    stage = KernelStage(
        "gradient",
        "skipjack.solvers.gpu.kernels.conv.depthwise",
        "conv_depthwise_filter",
        (programs, parts.count),
        {
            "image": array(layer.type, geometry.name("image")),
            "result": array(layer.type, geometry.name("result")),
            "out": out,
            "pixels": integer(every),
            **_sizes(layer, "result", "image"),
            "share": integer(parts.share),
            **pads_and_dilations(layer),
        },
        {
            "TIMES": layer.k,
            **filter_constants(layer),
            "LAST": layer.channels_last,
            "BLOCK_PIXELS": pixels,
            "BLOCK_CHANNELS": channels,
        },
        int(config["warps"]),
    )
    return [stage, sum_of_parts(layer, parts.count, transpose=False)] if parts.several else [stage]
