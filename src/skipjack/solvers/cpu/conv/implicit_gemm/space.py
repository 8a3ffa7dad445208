"""The search space of an implicit matrix product, and how a config becomes code and numbers."""

from __future__ import annotations

from skipjack.core import WHOLE_EXTENT, Config, Device, Parameter
from skipjack.native import VectorType
from skipjack.operations import Geometry
from skipjack.solvers.cpu.conv.implicit_gemm.estimate import (
    CpuLimits,
    FilterRunSettings,
    PixelEstimate,
    PixelRunSettings,
    filter_time,
    runs_time,
    vector_of,
)
from skipjack.solvers.cpu.conv.implicit_gemm.filter_gradients import row_count
from skipjack.solvers.cpu.conv.implicit_gemm.gather import Gather, even_size, gather_of
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_blocks import FilterForm
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_tile import PixelForm
from skipjack.solvers.cpu.gemm import PackedSpace

_TILES = 12
"""Tiles in a space, the best ones by the estimate."""
_MOST_IMAGES = 4
"""Most images of a tile."""
_DEPTHS = (32, 64, 128, 256)
_PANELS = (1, 2, 4)
_LINES = (1, 4, 16, 64)
_FILTER_LINES = (2, 4, 8, 16, 32, 64, 128, 256)
_ROUND_PIXELS, _ROUND_BYTES = 1 << 10, 4 << 20
"""Rounds of images that are transposed have at least this many pixels, or take this many bytes."""
_MORE = 16
"""The larger choice of a round has at most this many times the images."""
_FILLED = 0.7
"""The least share of lanes that the image's channels fill, relative to the result's, for
vectors."""


# Pixels


def pixel_form(gather: Gather, config: Config, vector: VectorType) -> PixelForm:
    """The part of a config that decides the machine code."""
    images, pixels, vectors = (int(part) for part in str(config["tile"]).split("x"))
    whole = int(config["depth"]) >= gather.reduced
    return PixelForm(images, pixels, vectors, whole, vector, by_dots(gather, vector.lanes))


def by_dots(gather: Gather, lanes: int) -> bool:
    """Whether there are so few columns that vectors should hold the channels to sum over."""
    return 2 * gather.columns <= lanes and 2 * gather.reduced > lanes


def pixel_run_settings(gather: Gather, form: PixelForm, config: Config) -> PixelRunSettings:
    """The part of a config that is set at run time."""
    panels = -(-gather.columns // form.columns)
    return PixelRunSettings(
        min(int(config["depth"]), gather.reduced),
        min(int(config["panels"]), panels),
        int(config["lines"]),
        config["split"] == "panels",
        gather.n // int(config["images"]),
    )


def pixel_space(geometry: Geometry, dtype: str, device: Device) -> PackedSpace:
    """The space: tiles of pixels and channels, blocks, what threads share out."""
    gather, machine = gather_of(geometry), CpuLimits.of(device)
    vector = vector_of(dtype, device)
    tiles = _pixel_tiles(gather, vector, machine)
    lines = gather.n * max(d.count * h.count for d, h, _ in gather.phases)
    panels = -(-gather.columns // vector.lanes)
    rounds = _rounds(geometry, vector.item_bytes)
    depths = (*(d for d in _DEPTHS if d < gather.reduced), gather.reduced)
    if by_dots(gather, vector.lanes):
        panels, depths = 1, (gather.reduced,)
    parameters = [
        Parameter("tile", tiles),
        Parameter("depth", depths),
        Parameter("panels", (*(p for p in _PANELS if p < panels), WHOLE_EXTENT), stage="run"),
        Parameter("lines", (*(each for each in _LINES if each < lines), WHOLE_EXTENT), stage="run"),
        Parameter("split", ("lines", "panels")[: machine.threads], stage="run"),
        Parameter("images", rounds),
    ]
    estimate = PixelEstimate(gather, machine)
    least = _least(geometry, vector, machine)

    def order(config: Config) -> float:
        form = pixel_form(gather, config, vector)
        return estimate(form, pixel_run_settings(gather, form, config)) / least

    # Blocks of lines only matter if a block has several panels.
    return PackedSpace(
        parameters, order, [_takes_whole_images, f"panels > 1 or lines == {WHOLE_EXTENT}"]
    )


def _least(geometry: Geometry, vector: VectorType, machine: CpuLimits) -> float:
    return geometry.multiplications / (vector.lanes * machine.threads)


def _takes_whole_images(tile: str, images: int) -> bool:
    """Whether the images of a tile divide the images of a round."""
    return images % int(tile.partition("x")[0]) == 0


def _pixel_tiles(gather: Gather, vector: VectorType, machine: CpuLimits) -> tuple[str, ...]:
    """The tiles (images, pixels, vectors) that fit the registers, the best first."""
    count = max(width.count for _, _, width in gather.phases)
    widths = range(1, min(-(-gather.columns // vector.lanes), 6) + 1)
    dots = by_dots(gather, vector.lanes)
    if dots:
        widths = range(gather.columns, gather.columns + 1)
    estimate = PixelEstimate(gather, machine)
    found: dict[str, float] = {}
    for images in range(1, _MOST_IMAGES + 1):
        for pixels in {even_size(count, most) for most in range(1, machine.registers)}:
            for vectors in widths:
                alone = pixels == count or images == 1
                if gather.n % images or not alone or not machine.fits(images * pixels, vectors):
                    continue
                form = PixelForm(images, pixels, vectors, True, vector, dots)
                settings = PixelRunSettings(gather.reduced, 1, WHOLE_EXTENT, False)
                found[f"{images}x{pixels}x{vectors}"] = estimate(form, settings)
    return tuple(sorted(found, key=lambda name: (found[name], name))[:_TILES])


def _rounds(geometry: Geometry, item: int) -> tuple[int, ...]:
    """The choices of images per round.

    All images if nothing is transposed, unless every phase would read them again.
    """
    phases = geometry.wanted == "image" and any(axis.stride > 1 for axis in geometry.axes)
    if geometry.channels_last and not phases:
        return (geometry.n,)
    pixels = max(geometry.result_pixels, 1)
    image = geometry.axes[0].image * geometry.axes[1].image * geometry.axes[2].image
    size = (pixels * geometry.k + image * geometry.c) * item
    enough = max(1, min(_ROUND_BYTES // size, -(-_ROUND_PIXELS // pixels)))
    divisors = [n for n in range(1, geometry.n + 1) if geometry.n % n == 0]
    small = max(n for n in divisors if n <= enough)
    larger = next((n for n in divisors if 4 * small <= n <= _MORE * small), small)
    return tuple(dict.fromkeys((small, larger, *[geometry.n] * geometry.channels_last)))


# The filter


def filter_form(config: Config, vector: VectorType) -> FilterForm:
    """The part of a config that decides the machine code."""
    rows, vectors = (int(part) for part in str(config["tile"]).split("x"))
    return FilterForm(rows, vectors, vector)


def filter_run_settings(config: Config) -> FilterRunSettings:
    """The part of a config that is set at run time."""
    return FilterRunSettings(int(config["lines"]), config["inner"] == "rows", int(config["images"]))


def filter_space(geometry: Geometry, dtype: str, device: Device) -> PackedSpace:
    """The space: tiles of channels by channels, blocks of pixels, and the order of tiles."""
    machine, vector = CpuLimits.of(device), vector_of(dtype, device)
    lines = geometry.n * geometry.result_sizes[0] * geometry.result_sizes[1]
    parameters = [
        Parameter("tile", _filter_tiles(geometry, vector, machine)),
        Parameter("lines", (*(n for n in _FILTER_LINES if n < lines), WHOLE_EXTENT), stage="run"),
        Parameter("inner", ("columns", "rows"), stage="run"),
        Parameter("images", _rounds(geometry, vector.item_bytes)),
    ]

    least = _least(geometry, vector, machine)

    def order(config: Config) -> float:
        form, settings = filter_form(config, vector), filter_run_settings(config)
        return _filter_time(geometry, form, settings, machine) / least

    return PackedSpace(parameters, order)


def by_runs(geometry: Geometry, lanes: int) -> bool:
    """Whether the image has so few channels that vectors should hold those of the result."""

    def filled(channels: int) -> float:
        return channels / (-(-channels // lanes) * lanes)

    return filled(geometry.group_c) < _FILLED * filled(geometry.group_k)


def _filter_tiles(geometry: Geometry, vector: VectorType, machine: CpuLimits) -> tuple[str, ...]:
    rows, columns = geometry.group_k, geometry.group_c
    if by_runs(geometry, vector.lanes):
        rows, columns = row_count(geometry), geometry.group_k
    most_vectors = -(-columns // vector.lanes)
    found: dict[str, float] = {}
    for height in {even_size(rows, most) for most in range(1, machine.registers)}:
        for vectors in range(1, min(most_vectors, 6) + 1):
            if machine.fits(height, vectors):
                form = FilterForm(height, vectors, vector)
                time = _filter_time(
                    geometry, form, FilterRunSettings(WHOLE_EXTENT, False, geometry.n), machine
                )
                found[f"{height}x{vectors}"] = time
    return tuple(sorted(found, key=lambda name: (found[name], name))[:_TILES])


def _filter_time(
    geometry: Geometry, form: FilterForm, settings: FilterRunSettings, machine: CpuLimits
) -> float:
    way = runs_time if by_runs(geometry, form.vector.lanes) else filter_time
    return way(geometry, form, settings, machine)
