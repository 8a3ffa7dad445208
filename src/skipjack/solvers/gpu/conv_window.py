"""Convolutions of images with few channels, as the first layer of a network has.

The image is copied once with its channels padded to a power of two. Then all taps of one row of the
filter are one window of neighbouring elements, and windows of neighbouring pixels overlap: to the
copy engine they are the channels of an image whose filter is one column wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import OUT
from skipjack.solvers.gpu.conv_arguments import box_constants
from skipjack.solvers.gpu.conv_boxes import Box, ceil_div, count, read
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.conv_parts import Parts
from skipjack.solvers.gpu.conv_steps import scratch, turned
from skipjack.solvers.gpu.conv_views import ALIGNED
from skipjack.solvers.gpu.conv_window_space import window_filter_space, window_space
from skipjack.solvers.gpu.spec import Constant
from skipjack.solvers.gpu.stage import Given, Stage, StagedGpuSolver, array, blocks, size

MOST_CHANNELS, MOST_WINDOW = 8, 64
_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Windows:
    """How an image is packed."""

    layer: Layer

    @property
    def padded(self) -> int:
        """Channels of a pixel: windows must begin at multiples of 16 bytes."""
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
        """Pixels of a packed row: those of the last window are the last."""
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
        """Of a packed filter."""
        return self.layer.geometry.k * self.layer.high.filter * self.window

    @property
    def channels(self) -> dict[str, Constant]:
        """Constants of packing kernels."""
        return {
            "C": self.layer.geometry.c,
            "PADDED": self.padded,
            "LAST": self.layer.last,
            "BLOCK": _BLOCK,
        }

    @property
    def taps(self) -> dict[str, Constant]:
        """Further ones, of those for filters."""
        axes = (self.layer.high, self.layer.wide)
        return {"Y": axes[0].filter, "X": axes[1].filter, "WINDOW": self.window}

    def boxed(self, box: Box) -> Given:
        """The packed image as windows, for the copy engine."""
        layer, row = self.layer, self.wide * self.padded
        stride = layer.high.stride
        return blocks(
            layer.type,
            self.image,
            (layer.geometry.n, self.high // stride, stride, layer.wide.result, self.window),
            (self.high * row, stride * row, row, layer.wide.stride * self.padded, 1),
            (box[0], box[1], 1, box[2], self.window),
        )


class WindowConvolution(StagedGpuSolver):
    """Packs the image and the filter, then convolves by boxes."""

    name = "triton_conv_window"
    chains = True
    algorithm = "ImplicitGEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Many channels, wide windows, groups, dilations along a row, the image's gradient."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine for blocks"
        if reason := not_two_dimensional(problem):
            return reason
        layer = Layer.of(problem)
        if layer.back:
            return "it does not compute images"
        if layer.geometry.groups > 1 or layer.geometry.c > MOST_CHANNELS:
            return f"it is for at most {MOST_CHANNELS} channels in one group"
        if layer.wide.filter > 1 and layer.wide.dilation > 1:
            return "it needs a dilation of 1 along rows"
        if layer.geometry.k % ALIGNED:
            return f"it needs multiples of {ALIGNED} channels of the result"
        if Windows(layer).window > MOST_WINDOW or Windows(layer).image.size >= 2**31:
            return "its windows would be too large"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Matrix units are used in full, which gathering few channels cannot do."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Boxes, tiles, parts of long sums, warps and stages."""
        layer = Layer.of(problem)
        window = Windows(layer).window
        if layer.direction == "wrw":
            return window_filter_space(layer, device, window)
        return window_space(layer, device, window)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """Pack, convolve, unpack a gradient."""
        windows = Windows(Layer.of(problem))
        if windows.layer.direction == "wrw":
            return [_packed_image(windows), *_gradient(windows, device, config)]
        return [_packed_image(windows), _packed_filter(windows), _convolved(windows, config)]


def _packed_image(windows: Windows) -> Stage:
    layer = windows.layer
    elements = windows.image.size // layer.element_bytes
    _, rows, columns = layer.sizes("image")
    return Stage(
        "pack_image",
        "windows",
        "pack_image",
        (ceil_div(elements, _BLOCK),),
        {
            "source": array(layer.type, layer.geometry.name("image")),
            "out": array(layer.type, windows.image),
            "size": size(elements),
            "rows": size(rows),
            "columns": size(columns),
            "wide": size(windows.wide),
            "high": size(windows.high),
            "pad": size(layer.wide.pad),
        },
        windows.channels,
    )


def _filter_scratch(windows: Windows) -> Scratch:
    return Scratch("packed_filter", windows.filter_elements * windows.layer.element_bytes)


def _packed_filter(windows: Windows) -> Stage:
    layer = windows.layer
    return Stage(
        "pack_filter",
        "windows",
        "pack_filter",
        (ceil_div(windows.filter_elements, _BLOCK),),
        {
            "source": array(layer.type, layer.geometry.name("filter")),
            "out": array(layer.type, _filter_scratch(windows)),
            "size": size(windows.filter_elements),
        },
        {**windows.channels, **windows.taps},
    )


def _steps(layer: Layer) -> dict[str, Given]:
    """Rows are padded by the copy engine, columns are padded already."""
    dilation = layer.high.dilation if layer.high.filter > 1 else 1
    return {
        "pad_h": size(layer.high.pad),
        "pad_w": size(0),
        "dilation_h": size(dilation),
        "dilation_w": size(1),
    }


def _constants(layer: Layer) -> dict[str, Constant]:
    return {"Y": layer.high.filter, "X": 1, "STRIDE_H": layer.high.stride, "STRIDE_W": 1}


def _convolved(windows: Windows, config: Config) -> Stage:
    layer, box, cols = windows.layer, read(str(config["box"])), int(config["cols"])
    images, rows, columns = layer.sizes("result")
    across = layer.high.filter * windows.window
    return Stage(
        "convolution",
        "conv_box",
        "conv_box",
        (ceil_div(layer.k, cols) * count((images, rows, columns), box),),
        {
            "given": windows.boxed(box),
            "weights": blocks(
                layer.type,
                _filter_scratch(windows),
                (layer.k, across),
                (across, 1),
                (cols, windows.window),
            ),
            "out": array(layer.type, OUT),
            "images": size(images),
            "rows": size(rows),
            "columns": size(columns),
            "cols": size(layer.k),
            "depth": size(windows.window),
            "groups": size(1),
            **_steps(layer),
        },
        {
            **_constants(layer),
            "BACK": False,
            "STORE": "last" if layer.last else "planes",
            **box_constants(box),
            "BLOCK_COLS": cols,
            "BLOCK_DEPTH": windows.window,
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _gradient(windows: Windows, device: Device, config: Config) -> list[Stage]:
    layer, box, tile_k = windows.layer, read(str(config["box"])), int(config["k"])
    sizes = layer.sizes("result")
    tiles = ceil_div(layer.k, tile_k) * layer.high.filter
    boxes = count(sizes, box)
    parts = Parts.of(boxes, tiles, device.units, int(config["waves"]))
    sums = Scratch("parts", 4 * parts.count * windows.filter_elements)
    _, rows, columns = sizes
    before = [] if layer.last else [turned(layer, "result")]
    place = Pointer(layer.geometry.name("result")) if layer.last else scratch(layer, "result")
    stage = Stage(
        "gradient",
        "conv_box_filter",
        "conv_box_filter",
        (tiles, parts.count),
        {
            "image": windows.boxed(box),
            "result": array(layer.type, place),
            "out": array("fp32", sums),
            "boxes": size(boxes),
            "images": size(layer.geometry.n),
            "rows": size(rows),
            "columns": size(columns),
            "k": size(layer.k),
            "c": size(windows.window),
            "groups": size(1),
            "share": size(parts.share),
            "part_stride": size(windows.filter_elements),
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
    unpacked = Stage(
        "unpack",
        "windows",
        "unpack_sums",
        (ceil_div(elements, 128),),
        {
            "parts": array("fp32", sums),
            "out": array(layer.type, OUT),
            "size": size(elements),
            "count": size(parts.count),
            "part_stride": size(windows.filter_elements),
        },
        {**windows.channels, **windows.taps, "BLOCK": 128},
    )
    return [*before, stage, unpacked]
