"""What may vary about an implicit matrix product, and how a config becomes code and numbers."""

from __future__ import annotations

from skipjack.core.config import ALL, Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter
from skipjack.native.ir import VectorType
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.implicit_axes import even
from skipjack.solvers.convolution.implicit_estimate import (
    Machine,
    PixelEstimate,
    PixelWalk,
    vector_of,
)
from skipjack.solvers.convolution.implicit_filter_estimate import (
    FilterWalk,
    filter_time,
    runs_time,
)
from skipjack.solvers.convolution.implicit_filter_runs import row_count
from skipjack.solvers.convolution.implicit_gather import Gather, gather_of
from skipjack.solvers.convolution.implicit_pixel_tile import PixelForm
from skipjack.solvers.convolution.implicit_reduction import FilterForm
from skipjack.solvers.loops.packed_space import PackedSpace

_TILES = 12
"""Tiles that a space has, the best by arithmetic."""
_MOST_IMAGES = 4
"""Of a tile."""
_DEPTHS = (32, 64, 128, 256)
_PANELS = (1, 2, 4)
_LINES = (1, 4, 16, 64)
_FILTER_LINES = (2, 4, 8, 16, 32, 64, 128, 256)
_ROUND_PIXELS, _ROUND_BYTES = 1 << 10, 4 << 20
"""Rounds of images that are turned round have at least so many pixels, or take so many bytes."""
_MORE = 16
"""The other choice for a round has at most so many times the images."""
_FILLED = 0.7
"""Of the lanes that the result's channels fill, what the image's must fill to lie in vectors."""


# Pixels


def pixel_form(gather: Gather, config: Config, vector: VectorType) -> PixelForm:
    """What of a config decides the machine code."""
    images, pixels, vectors = (int(part) for part in str(config["tile"]).split("x"))
    whole = int(config["depth"]) >= gather.reduced
    return PixelForm(images, pixels, vectors, whole, vector, by_dots(gather, vector.lanes))


def by_dots(gather: Gather, lanes: int) -> bool:
    """Whether columns are so few that the channels to sum over should lie in vectors."""
    return 2 * gather.columns <= lanes and 2 * gather.reduced > lanes


def pixel_walk(gather: Gather, form: PixelForm, config: Config) -> PixelWalk:
    """What of a config is set at run time."""
    panels = -(-gather.columns // form.columns)
    return PixelWalk(
        min(int(config["depth"]), gather.reduced),
        min(int(config["panels"]), panels),
        int(config["lines"]),
        config["split"] == "panels",
        gather.n // int(config["images"]),
    )


def pixel_space(geometry: Geometry, dtype: str, device: Device) -> PackedSpace:
    """Tiles of pixels and channels, blocks of everything, what threads share out."""
    gather, machine = gather_of(geometry), Machine.of(device)
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
        Parameter("panels", (*(p for p in _PANELS if p < panels), ALL), stage="run"),
        Parameter("lines", (*(each for each in _LINES if each < lines), ALL), stage="run"),
        Parameter("split", ("lines", "panels")[: machine.threads], stage="run"),
        Parameter("images", rounds),
    ]
    estimate = PixelEstimate(gather, machine)
    least = _least(geometry, vector, machine)

    def order(config: Config) -> float:
        form = pixel_form(gather, config, vector)
        return estimate(form, pixel_walk(gather, form, config)) / least

    # Blocks of lines mean something where a block has several panels.
    return PackedSpace(parameters, order, [_takes_whole_images, f"panels > 1 or lines == {ALL}"])


def _least(geometry: Geometry, vector: VectorType, machine: Machine) -> float:
    """Cycles of all multiplications: the unit of estimates."""
    return geometry.multiplications / (vector.lanes * machine.threads)


def _takes_whole_images(tile: str, images: int) -> bool:
    """A round's images are shared out to tiles without a rest."""
    return images % int(tile.partition("x")[0]) == 0


def _pixel_tiles(gather: Gather, vector: VectorType, machine: Machine) -> tuple[str, ...]:
    """Images, pixels and vectors that fit into registers, the best first."""
    count = max(width.count for _, _, width in gather.phases)
    widths = range(1, min(-(-gather.columns // vector.lanes), 6) + 1)
    dots = by_dots(gather, vector.lanes)
    if dots:
        widths = range(gather.columns, gather.columns + 1)
    estimate = PixelEstimate(gather, machine)
    found: dict[str, float] = {}
    for images in range(1, _MOST_IMAGES + 1):
        for pixels in {even(count, most) for most in range(1, machine.registers)}:
            for vectors in widths:
                alone = pixels == count or images == 1
                if gather.n % images or not alone or not machine.fits(images * pixels, vectors):
                    continue
                form = PixelForm(images, pixels, vectors, True, vector, dots)
                walk = PixelWalk(gather.reduced, 1, ALL, False)
                found[f"{images}x{pixels}x{vectors}"] = estimate(form, walk)
    return tuple(sorted(found, key=lambda name: (found[name], name))[:_TILES])


def _rounds(geometry: Geometry, item: int) -> tuple[int, ...]:
    """How many images are computed at a time.

    All where nothing is turned round, unless every phase would read them anew.
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
    """What of a config decides the machine code."""
    rows, vectors = (int(part) for part in str(config["tile"]).split("x"))
    return FilterForm(rows, vectors, vector)


def filter_walk(config: Config) -> FilterWalk:
    """What of a config is set at run time."""
    return FilterWalk(int(config["lines"]), config["inner"] == "rows", int(config["images"]))


def filter_space(geometry: Geometry, dtype: str, device: Device) -> PackedSpace:
    """Tiles of channels by channels, blocks of pixels, and the order of tiles."""
    machine, vector = Machine.of(device), vector_of(dtype, device)
    lines = geometry.n * geometry.result_sizes[0] * geometry.result_sizes[1]
    parameters = [
        Parameter("tile", _filter_tiles(geometry, vector, machine)),
        Parameter("lines", (*(n for n in _FILTER_LINES if n < lines), ALL), stage="run"),
        Parameter("inner", ("columns", "rows"), stage="run"),
        Parameter("images", _rounds(geometry, vector.item_bytes)),
    ]

    least = _least(geometry, vector, machine)

    def order(config: Config) -> float:
        form, walk = filter_form(config, vector), filter_walk(config)
        return _filter_time(geometry, form, walk, machine) / least

    return PackedSpace(parameters, order)


def by_runs(geometry: Geometry, lanes: int) -> bool:
    """Whether the image's channels are so few that the result's should lie in vectors."""

    def filled(channels: int) -> float:
        return channels / (-(-channels // lanes) * lanes)

    return filled(geometry.group_c) < _FILLED * filled(geometry.group_k)


def _filter_tiles(geometry: Geometry, vector: VectorType, machine: Machine) -> tuple[str, ...]:
    rows, columns = geometry.group_k, geometry.group_c
    if by_runs(geometry, vector.lanes):
        rows, columns = row_count(geometry), geometry.group_k
    most_vectors = -(-columns // vector.lanes)
    found: dict[str, float] = {}
    for height in {even(rows, most) for most in range(1, machine.registers)}:
        for vectors in range(1, min(most_vectors, 6) + 1):
            if machine.fits(height, vectors):
                form = FilterForm(height, vectors, vector)
                time = _filter_time(geometry, form, FilterWalk(ALL, False, geometry.n), machine)
                found[f"{height}x{vectors}"] = time
    return tuple(sorted(found, key=lambda name: (found[name], name))[:_TILES])


def _filter_time(geometry: Geometry, form: FilterForm, walk: FilterWalk, machine: Machine) -> float:
    way = runs_time if by_runs(geometry, form.vector.lanes) else filter_time
    return way(geometry, form, walk, machine)
