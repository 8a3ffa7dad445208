"""1x1 convolutions in NCHW: products on the images in place."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.gpu import KNOWN
from skipjack.operations import OUT
from skipjack.solvers.gpu.conv.estimate import filter_ns, tile_ns
from skipjack.solvers.gpu.conv.layer import ConvLayer, SumParts, ceil_div, not_two_dimensional
from skipjack.solvers.gpu.conv.spaces import tile_sides
from skipjack.solvers.gpu.conv.stages import ALIGNED, part_scratch, sum_of_parts
from skipjack.solvers.gpu.triton import (
    KernelStage,
    LaunchArgument,
    StagedGpuSolver,
    array,
    integer,
    tma_array,
)

_MOST_SUMS = 128


class NchwPointwiseConvolution(StagedGpuSolver):
    """Each image is a matrix of channels by pixels, which TMA loads in blocks."""

    name = "triton_conv_planes"
    chains = True
    algorithm = "GEMM"
    kinds = ("cuda",)
    dtypes = ("f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but 1x1 filters and planes that begin at multiples of 16 bytes."""
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine (TMA)"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if layer.channels_last or not layer.flat or layer.geometry.groups > 1:
            return "it needs 1x1 filters without strides, pads and groups, and NCHW"
        if not reads_planes(layer):
            return f"it needs multiples of {ALIGNED} pixels and of 16 channels to sum over"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """No array has to be transposed."""
        return 2.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, parts of long sums, warps and stages."""
        layer = ConvLayer.of(problem)
        return _filter_space(layer, device) if layer.direction == "wrw" else _space(layer, device)

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The product, and the kernel that adds up its parts."""
        layer = ConvLayer.of(problem)
        if layer.direction == "wrw":
            return _gradient(layer, device, config)
        return [_convolved(layer, device, config)]


def reads_planes(layer: ConvLayer) -> bool:
    """Whether TMA can read the planes of a 1x1 convolution in place."""
    if layer.channels_last or not layer.flat or layer.geometry.groups > 1:
        return False
    if _pixels(layer) % ALIGNED or layer.c % ALIGNED:
        return False
    return layer.direction == "wrw" or layer.depth % 16 == 0


def _pixels(layer: ConvLayer) -> int:
    _, rows, columns = layer.sizes("image")
    return rows * columns


def _planes(layer: ConvLayer, name: str, channels: int, block: tuple[int, int]) -> LaunchArgument:
    pixels = _pixels(layer)
    return tma_array(layer.type, name, (layer.geometry.n * channels, pixels), (pixels, 1), block)


def _convolved(layer: ConvLayer, device: Device, config: Config) -> KernelStage:
    geometry, pixels = layer.geometry, _pixels(layer)
    cols, depth, across, walk = (int(config[at]) for at in ("cols", "depth", "pixels", "walk"))
    block = (depth, cols) if layer.computes_image else (cols, depth)
    tiles = geometry.n * ceil_div(layer.cols, cols) * ceil_div(pixels, across)
    weights = tma_array(
        layer.type, geometry.name("filter"), (layer.k, layer.c), (layer.c, 1), block
    )
    out = array(layer.type, OUT)
    if config["store"] == "box":
        out = _planes(layer, OUT, layer.cols, (cols, across))
    return KernelStage(
        "convolution",
        "skipjack.solvers.gpu.kernels.conv.nchw_pointwise",
        "conv_planes",
        (min(tiles, walk * device.units) if walk else tiles,),
        {
            "given": _planes(layer, geometry.name(layer.given), layer.depth, (depth, across)),
            "weights": weights,
            "out": out,
            "cols": integer(layer.cols),
            "depth": integer(layer.depth),
            "pixels": integer(pixels),
            "tiles": integer(tiles),
        },
        {
            "BACK": layer.computes_image,
            "STORE": str(config["store"]),
            "WALK": walk > 0,
            "BLOCK_COLS": cols,
            "BLOCK_PIXELS": across,
            "BLOCK_DEPTH": depth,
        },
        int(config["warps"]),
        int(config["stages"]),
    )


def _gradient(layer: ConvLayer, device: Device, config: Config) -> list[KernelStage]:
    geometry = layer.geometry
    k, c, pixels = (int(config[name]) for name in ("k", "c", "pixels"))
    chunks = ceil_div(_pixels(layer), pixels)
    tiles = ceil_div(layer.k, k) * ceil_div(layer.c, c)
    parts = SumParts.of(geometry.n * chunks, tiles, device.units, int(config["waves"]))
    out = array(layer.type, OUT)
    if parts.several:
        out = array("fp32", part_scratch(layer, parts.count))
    stage = KernelStage(
        "gradient",
        "skipjack.solvers.gpu.kernels.conv.nchw_pointwise",
        "conv_planes_filter",
        (tiles, parts.count),
        {
            "image": _planes(layer, geometry.name("image"), layer.c, (c, pixels)),
            "result": _planes(layer, geometry.name("result"), layer.k, (k, pixels)),
            "out": out,
            "k": integer(layer.k),
            "c": integer(layer.c),
            "blocks": integer(geometry.n * chunks),
            "share": integer(parts.share),
            "chunks": integer(chunks),
            "part_stride": integer(layer.elements("filter")),
        },
        {"BLOCK_K": k, "BLOCK_C": c, "BLOCK_PIXELS": pixels},
        int(config["warps"]),
        int(config["stages"]),
    )
    return [stage, sum_of_parts(layer, parts.count, transpose=False)] if parts.several else [stage]


def _space(layer: ConvLayer, device: Device) -> ParameterSpace:
    most, each = KNOWN[device.arch].shared_bytes, _pixels(layer)

    def fits(
        pixels: int, cols: int, depth: int, warps: int, stages: int, store: str, walk: int
    ) -> bool:
        if store == "box" and layer.cols % cols:
            return False
        held, stored = (pixels + cols) * depth * 2 * stages, pixels * cols * 2
        shared = held + stored if walk else max(held, stored)
        if walk == 2 and 2 * (shared + 2048) > most:
            return False
        return shared + 2048 <= most and 16 <= pixels * cols // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        pixels = int(config["pixels"])
        wasted = ceil_div(each, pixels) * pixels / each
        return tile_ns(layer, device, pixels, config, wasted)

    depths = tuple(depth for depth in (128, 64, 32, 16) if layer.depth % depth == 0)
    return ParameterSpace(
        [
            Parameter("pixels", tile_sides(each, 64, 256)),
            Parameter("cols", tile_sides(layer.cols, 64, 256)),
            Parameter("depth", depths[:2] or (16,)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5, 6)),
            Parameter("store", ("box", "planes")),
            Parameter("walk", (0, 1, 2)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )


def _filter_space(layer: ConvLayer, device: Device) -> ParameterSpace:
    most = KNOWN[device.arch].shared_bytes

    def fits(k: int, c: int, pixels: int, warps: int, stages: int) -> bool:
        shared = (k + c) * pixels * 2 * stages
        return shared + 1024 <= most and 16 <= k * c // (warps * 32) <= _MOST_SUMS

    def estimate(config: Config) -> float:
        chunks = layer.geometry.n * ceil_div(_pixels(layer), int(config["pixels"]))
        return filter_ns(layer, device, config, 1, chunks)

    return ParameterSpace(
        [
            Parameter("k", tile_sides(layer.k, 64, 256)),
            Parameter("c", tile_sides(layer.c, 64, 256)),
            Parameter("pixels", (64, 128)),
            Parameter("warps", (4, 8)),
            Parameter("stages", (2, 3, 4, 5)),
            Parameter("waves", (1, 2, 3, 4)),
            Parameter("early", (True,)),
        ],
        [fits],
        estimate,
        default_by_order=True,
    )
