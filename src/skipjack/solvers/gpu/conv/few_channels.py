"""Convolutions of images with few channels, such as the first layer of a network.

The image is copied once, with its channels padded to a power of two. All taps of a row of the
filter are then a window of adjacent elements, and the windows of adjacent pixels overlap: for TMA
they are the channels of an image whose filter is one column wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN, Pointer, Scratch
from skipjack.operations import OUT
from skipjack.solvers.gpu.conv.layer import (
    Box,
    ConvLayer,
    SumParts,
    box_count,
    ceil_div,
    not_two_dimensional,
    parse_box,
)
from skipjack.solvers.gpu.conv.spaces import window_filter_space, window_space
from skipjack.solvers.gpu.conv.stages import (
    ALIGNED,
    box_constants,
    transposed_input,
    transposed_scratch,
)
from skipjack.solvers.gpu.triton import (
    Constant,
    KernelStage,
    LaunchArgument,
    StagedGpuSolver,
    array,
    integer,
    tma_array,
)

MOST_CHANNELS, MOST_WINDOW = 8, 64
_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class PackedWindows:
    """The layout of a packed image and filter."""

    layer: ConvLayer

    @property
    def padded(self) -> int:
        """Channels of a pixel, padded so that windows begin at multiples of 16 bytes."""
        found = 1 << (self.layer.geometry.c - 1).bit_length()
        while found * self.layer.wide.stride % ALIGNED:
            found *= 2
        return found

    @property
    def window(self) -> int:
        """Elements of a window: a power of two."""
        return max(16, 1 << (self.layer.wide.filter * self.padded - 1).bit_length())

    @property
    def wide(self) -> int:
        """Pixels of a packed row, which ends with the last window."""
        axis = self.layer.wide
        pixels = (axis.result - 1) * axis.stride + self.window // self.padded
        step = max(1, ALIGNED // self.padded)
        return ceil_div(pixels, step) * step

    @property
    def high(self) -> int:
        """Rows of a packed image: a multiple of the stride."""
        axis = self.layer.high
        return ceil_div(axis.image, axis.stride) * axis.stride

    @property
    def image(self) -> Scratch:
        """The packed image."""
        pixels = self.layer.geometry.n * self.high * self.wide
        return Scratch("packed_image", pixels * self.padded * self.layer.element_bytes)

    @property
    def filter_elements(self) -> int:
        """Elements of a packed filter."""
        return self.layer.geometry.k * self.layer.high.filter * self.window

    @property
    def channels(self) -> dict[str, Constant]:
        """Constants of the packing kernels."""
        return {
            "C": self.layer.geometry.c,
            "PADDED": self.padded,
            "LAST": self.layer.channels_last,
            "BLOCK": _BLOCK,
        }

    @property
    def taps(self) -> dict[str, Constant]:
        """Additional constants of the kernels that pack filters."""
        axes = (self.layer.high, self.layer.wide)
        return {"Y": axes[0].filter, "X": axes[1].filter, "WINDOW": self.window}

    def boxed(self, box: Box) -> LaunchArgument:
        """The TMA descriptor of the windows of the packed image."""
        layer, row = self.layer, self.wide * self.padded
        stride = layer.high.stride
        return tma_array(
            layer.type,
            self.image,
            (layer.geometry.n, self.high // stride, stride, layer.wide.result, self.window),
            (self.high * row, stride * row, row, layer.wide.stride * self.padded, 1),
            (box[0], box[1], 1, box[2], self.window),
        )


class FewChannelConvolution(StagedGpuSolver):
    """Packs the image and the filter, then convolves by boxes."""

    name = "triton_conv_window"
    chains = True
    algorithm = "ImplicitGEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse many channels, wide windows, groups, dilated rows, and gradients of images."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine (TMA)"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if layer.computes_image:
            return "it does not compute gradients of images"
        if layer.geometry.groups > 1 or layer.geometry.c > MOST_CHANNELS:
            return f"it is for at most {MOST_CHANNELS} channels in one group"
        if layer.wide.filter > 1 and layer.wide.dilation > 1:
            return "it needs a dilation of 1 along rows"
        if layer.geometry.k % ALIGNED:
            return f"it needs multiples of {ALIGNED} channels of the result"
        if PackedWindows(layer).window > MOST_WINDOW or PackedWindows(layer).image.size >= 2**31:
            return "its windows would be too large"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """It uses the matrix units fully, which gathering few channels does not."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Boxes, tiles, parts of long sums, warps and stages."""
        layer = ConvLayer.of(problem)
        window = PackedWindows(layer).window
        if layer.direction == "wrw":
            return window_filter_space(layer, device, window)
        return window_space(layer, device, window)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """Pack, convolve; unpack the gradient of a filter."""
        windows = PackedWindows(ConvLayer.of(problem))
        if windows.layer.direction == "wrw":
            return [_packed_image(windows), *_gradient(windows, device, config)]
        return [_packed_image(windows), _packed_filter(windows), _convolved(windows, config)]


def _packed_image(windows: PackedWindows) -> KernelStage:
    layer = windows.layer
    elements = windows.image.size // layer.element_bytes
    _, rows, columns = layer.sizes("image")
    return KernelStage(
        "pack_image",
        "skipjack.solvers.gpu.kernels.conv.few_channels",
        "pack_image",
        (ceil_div(elements, _BLOCK),),
        {
            "source": array(layer.type, layer.geometry.name("image")),
            "out": array(layer.type, windows.image),
            "size": integer(elements),
            "rows": integer(rows),
            "columns": integer(columns),
            "wide": integer(windows.wide),
            "high": integer(windows.high),
            "pad": integer(layer.wide.pad),
        },
        windows.channels,
    )


def _filter_scratch(windows: PackedWindows) -> Scratch:
    return Scratch("packed_filter", windows.filter_elements * windows.layer.element_bytes)


def _packed_filter(windows: PackedWindows) -> KernelStage:
    layer = windows.layer
    return KernelStage(
        "pack_filter",
        "skipjack.solvers.gpu.kernels.conv.few_channels",
        "pack_filter",
        (ceil_div(windows.filter_elements, _BLOCK),),
        {
            "source": array(layer.type, layer.geometry.name("filter")),
            "out": array(layer.type, _filter_scratch(windows)),
            "size": integer(windows.filter_elements),
        },
        {**windows.channels, **windows.taps},
    )


def _steps(layer: ConvLayer) -> dict[str, LaunchArgument]:
    """Pads and dilations; TMA pads rows, and columns are already padded."""
    dilation = layer.high.dilation if layer.high.filter > 1 else 1
    return {
        "pad_h": integer(layer.high.pad),
        "pad_w": integer(0),
        "dilation_h": integer(dilation),
        "dilation_w": integer(1),
    }


def _constants(layer: ConvLayer) -> dict[str, Constant]:
    return {"Y": layer.high.filter, "X": 1, "STRIDE_H": layer.high.stride, "STRIDE_W": 1}


def _convolved(windows: PackedWindows, config: Config) -> KernelStage:
    layer, box, cols = windows.layer, parse_box(str(config["box"])), int(config["cols"])
    images, rows, columns = layer.sizes("result")
    across = layer.high.filter * windows.window
    return KernelStage(
        "convolution",
        "skipjack.solvers.gpu.kernels.conv.tma",
        "conv_box",
        (ceil_div(layer.k, cols) * box_count((images, rows, columns), box),),
        {
            "given": windows.boxed(box),
            "weights": tma_array(
                layer.type,
                _filter_scratch(windows),
                (layer.k, across),
                (across, 1),
                (cols, windows.window),
            ),
            "out": array(layer.type, OUT),
            "images": integer(images),
            "rows": integer(rows),
            "columns": integer(columns),
            "cols": integer(layer.k),
            "depth": integer(windows.window),
            "groups": integer(1),
            **_steps(layer),
        },
        {
            **_constants(layer),
            "BACK": False,
            "STORE": "last" if layer.channels_last else "planes",
            **box_constants(box),
            "BLOCK_COLS": cols,
            "BLOCK_DEPTH": windows.window,
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _gradient(windows: PackedWindows, device: Device, config: Config) -> list[KernelStage]:
    layer, box, tile_k = windows.layer, parse_box(str(config["box"])), int(config["k"])
    sizes = layer.sizes("result")
    tiles = ceil_div(layer.k, tile_k) * layer.high.filter
    boxes = box_count(sizes, box)
    parts = SumParts.of(boxes, tiles, device.units, int(config["waves"]))
    sums = Scratch("parts", 4 * parts.count * windows.filter_elements)
    _, rows, columns = sizes
    before = [] if layer.channels_last else [transposed_input(layer, "result")]
    place = (
        Pointer(layer.geometry.name("result"))
        if layer.channels_last
        else transposed_scratch(layer, "result")
    )
    stage = KernelStage(
        "gradient",
        "skipjack.solvers.gpu.kernels.conv.tma_filter",
        "conv_box_filter",
        (tiles, parts.count),
        {
            "image": windows.boxed(box),
            "result": array(layer.type, place),
            "out": array("fp32", sums),
            "boxes": integer(boxes),
            "images": integer(layer.geometry.n),
            "rows": integer(rows),
            "columns": integer(columns),
            "k": integer(layer.k),
            "c": integer(windows.window),
            "groups": integer(1),
            "share": integer(parts.share),
            "part_stride": integer(windows.filter_elements),
            **_steps(layer),
        },
        {
            **_constants(layer),
            "FLAT": False,
            **box_constants(box),
            "BLOCK_K": tile_k,
            "BLOCK_C": windows.window,
        },
        int(config["warps"]),
        int(config["stages"]),
    )
    elements = prod(layer.geometry.shape("filter"))
    unpacked = KernelStage(
        "unpack",
        "skipjack.solvers.gpu.kernels.conv.few_channels",
        "unpack_sums",
        (ceil_div(elements, 128),),
        {
            "parts": array("fp32", sums),
            "out": array(layer.type, OUT),
            "size": integer(elements),
            "count": integer(parts.count),
            "part_stride": integer(windows.filter_elements),
        },
        {**windows.channels, **windows.taps, "BLOCK": 128},
    )
    return [*before, stage, unpacked]
