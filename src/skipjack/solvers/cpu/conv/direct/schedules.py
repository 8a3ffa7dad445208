"""How the nests of a direct convolution run: register tiles, the loops around them, an estimate.

A tile of pixels (for the gradient of the filter: of channels of the result) times vectors of the
output's channels stays in registers while all taps and channels are summed. The other choice is how
much is computed with one panel of the filter before the next one:

==========  ============================================================================
block       one panel at a time for ...
==========  ============================================================================
``tile``    the rows of a tile: best if the whole filter stays in the cache
``rows``    some more rows
``image``   an image
``all``     all images of a round: the filter is read from memory once
``panel``   the same, but each panel is copied when it is needed: it stays in the cache
==========  ============================================================================

For the gradient of the filter, a block says over how many pixels sums stay in registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from math import prod

from skipjack.core import Config, Device, Nest
from skipjack.native import ITEM_BYTES, registers_of
from skipjack.operations import Geometry
from skipjack.solvers.cpu.conv.direct.nests import Panels, by_group, merges_taps
from skipjack.solvers.cpu.nest import Loop, Mark, Schedule, has_partials, normalize, shared_out

PANEL = "panel"
BLOCKS = ("tile", "rows", "image", "all", PANEL)
_ROWS = 8
"""Approximate number of rows in a block of rows."""
_TILES = 10
_MOST_ROWS = 28
_LATENCY = 8
"""Multiply-adds that must be in flight."""
_FAR_BYTES = 8
"""Bytes from outside L2 in the time of a vector multiply-add."""
_IN_CACHE = 0.7
"""The share of L2 that an array may take to stay there."""
_TEXT = re.compile(r"p(\d+)q(\d+)v(\d+)")


@dataclass(frozen=True, slots=True)
class DirectTile:
    """Rows and columns of pixels, and vectors of channels, that are in registers together.

    For the gradient of the filter, `columns` are channels of the result (taps if depthwise).
    """

    rows: int
    columns: int
    vectors: int

    @property
    def text(self) -> str:
        """The text in a config."""
        return f"p{self.rows}q{self.columns}v{self.vectors}"

    @classmethod
    def parse(cls, text: str) -> DirectTile:
        """The tile with this text."""
        match = _TEXT.fullmatch(text)
        assert match, f"{text} is not a tile"
        rows, columns, vectors = map(int, match.groups())
        return cls(rows, columns, vectors)


def vector_channels(geometry: Geometry) -> int:
    """The number of channels (or groups) to put into vectors."""
    if by_group(geometry):
        return geometry.groups
    if geometry.wanted == "result":
        return geometry.group_k
    if geometry.wanted == "filter" and merges_taps(geometry):
        return geometry.k
    return geometry.group_c


def row_channels(geometry: Geometry) -> int:
    """For the gradient of the filter: the number of channels along the rows of a tile."""
    if merges_taps(geometry):
        return geometry.axes[2].filter * geometry.c
    return geometry.group_k


def panels_of(geometry: Geometry, tile: DirectTile, dtype: str, device: Device) -> Panels:
    """Panels as wide as the tile, or a single one if that does not divide the channels."""
    channels = vector_channels(geometry)
    width = tile.vectors * device.vector_bytes // ITEM_BYTES[dtype]
    if geometry.wanted == "filter" or channels % width:
        return Panels(1, channels)
    return Panels(channels // width, width)


def schedule_of(
    nest: Nest, tile: DirectTile, block: str, dtype: str, device: Device, *, sums: bool = True
) -> Schedule:
    """The schedule of a nest for a tile and a block, shared out to the device's threads.

    With `sums`, threads may have partial sums of their own.
    """
    names = {name for name, _ in nest.loops}
    width = tile.vectors * device.vector_bytes // ITEM_BYTES[dtype]
    wanted_filter = "p" in nest.reduction_loops
    loops = _filter_loops(tile, block, width) if wanted_filter else _loops(tile, block, width)
    schedule = normalize([loop for loop in loops if loop.variable in names], nest)
    for form in shared_out(schedule, nest, device.units):
        if sums or not has_partials(form, nest):
            return form
    return schedule


def _plain(text: str) -> list[Loop]:
    return [Loop(name) for name in text.split()]


def _loops(tile: DirectTile, block: str, width: int) -> list[Loop]:
    panel = [Loop("o"), Loop("v", width)]
    across = [Loop("p", tile.rows), Loop("q", tile.columns)]
    around = {
        "tile": [*_plain("n g d"), across[0], *panel, across[1]],
        "rows": [*_plain("n g d"), Loop("p", _some_rows(tile)), *panel, *across],
        "image": [*_plain("n g d"), *panel, *across],
        "all": [*_plain("g"), *panel, *_plain("n d"), *across],
    }[block if block != PANEL else "all"]
    inner = [Loop("p", 1, Mark.UNROLL), Loop("q", 1, Mark.UNROLL), Loop("v", 1, Mark.VECTORIZE)]
    return [*around, *_plain("e y x r"), *inner]


def _some_rows(tile: DirectTile) -> int:
    return max(1, _ROWS // tile.rows) * tile.rows


def _filter_loops(tile: DirectTile, block: str, width: int) -> list[Loop]:
    kept = [*_plain("g e y x"), Loop("v", width), Loop("r", tile.columns)]
    inner = [Loop("r", 1, Mark.UNROLL), Loop("v", 1, Mark.VECTORIZE)]
    if tile.rows > 1:  # taps of a depthwise convolution
        kept = [*_plain("g e"), Loop("v", width)]
        inner = [Loop("y", 1, Mark.UNROLL), Loop("x", 1, Mark.UNROLL), *inner]
    around = {
        "tile": [*_plain("n d p"), *kept],
        "rows": [*_plain("n d"), Loop("p", _ROWS), *kept, *_plain("p")],
        "image": [*_plain("n"), *kept, *_plain("d p")],
        "all": [*kept, *_plain("n d p")],
    }[block if block != PANEL else "all"]
    return [*around, *_plain("q"), *inner]


# The choice of tiles and blocks


def tiles_of(geometry: Geometry, dtype: str, device: Device) -> list[DirectTile]:
    """The best tiles by arithmetic that fit the registers."""
    registers = registers_of(device)
    lanes = device.vector_bytes // ITEM_BYTES[dtype]
    most = -(-vector_channels(geometry) // lanes)
    found = []
    for vectors in range(1, min(most, 6) + 1):
        for rows, columns in _pixels(geometry, registers):
            if _fits(rows * columns, vectors, registers):
                found.append(DirectTile(rows, columns, vectors))
    found.sort(key=lambda tile: _slowness(geometry, tile, lanes))
    if geometry.wanted != "filter":
        # Without panels, consecutive rows of the filter lie far apart.
        channels = vector_channels(geometry)
        found = [tile for tile in found if channels % (tile.vectors * lanes) == 0] or found
    return found[:_TILES]


def _fits(pixels: int, vectors: int, registers: int) -> bool:
    """Whether the sums of a tile, its vectors of channels and a pixel fit the registers."""
    return pixels * vectors + vectors + 1 <= registers


def _pixels(geometry: Geometry, registers: int) -> list[tuple[int, int]]:
    if geometry.wanted == "filter":
        if by_group(geometry):
            _, y, x = geometry.filter_sizes
            together = y * x <= _MOST_ROWS and _fits(y * x, 1, registers)
            return [(y, x)] if together else [(1, 1)]
        return [(1, columns) for columns in range(1, min(row_channels(geometry), _MOST_ROWS) + 1)]
    _, p, q = _output_sizes(geometry)
    wide = [(1, columns) for columns in range(1, min(q, _MOST_ROWS) + 1)]
    return wide + [(rows, q) for rows in range(2, 5) if q <= 8 and rows <= p]


def _output_sizes(geometry: Geometry) -> tuple[int, int, int]:
    """The pixels that a nest writes along each axis."""
    if geometry.wanted == "result":
        return geometry.result_sizes
    d, p, q = (-(-axis.image // axis.stride) for axis in geometry.axes)
    return d, p, q


def _slowness(geometry: Geometry, tile: DirectTile, lanes: int) -> float:
    """Time relative to the multiply-adds alone: tails, latency and loads."""
    channels = vector_channels(geometry)
    extents = [(channels, tile.vectors * lanes)]
    base = 1
    if geometry.wanted != "filter":
        _, p, q = _output_sizes(geometry)
        extents = [(p, tile.rows), (q, tile.columns), *extents]
    elif by_group(geometry):
        base = tile.rows * tile.columns
    else:
        extents = [(row_channels(geometry), tile.columns), *extents]
    time = 0.0
    for shape in product(*(_pieces(extent, step) for extent, step in extents)):
        sizes = [size for _, size in shape]
        vectors = -(-sizes[-1] // lanes)
        copies = prod(sizes[:-1]) * base
        steps = max(copies * vectors, 0.6 * (copies + vectors), _LATENCY)
        time += prod(count for count, _ in shape) * (steps + 0.05 * (copies + vectors))
    useful = prod(extent for extent, _ in extents) * base / lanes
    return time / useful


def _pieces(extent: int, step: int) -> list[tuple[int, int]]:
    """The number of full steps and their size, then the rest."""
    full, rest = divmod(extent, step)
    return [pair for pair in ((full, step), (1, rest)) if all(pair)]


def estimate(geometry: Geometry, dtype: str, device: Device, config: Config) -> float:
    """Relative time of a config: arithmetic, and traffic from outside L2."""
    tile, block = DirectTile.parse(str(config["tile"])), str(config["block"])
    images, item = int(config["images"]), ITEM_BYTES[dtype]
    lanes = device.vector_bytes // item
    work = geometry.multiplications / lanes
    l2 = (device.cache_bytes("L2") or 1 << 20) * _IN_CACHE
    far = _filter_traffic if geometry.wanted == "filter" else _traffic
    traffic = far(geometry, tile, block, images, item, l2, lanes)
    pixels = prod(axis.padded for axis in geometry.axes) * geometry.c * item
    if images > 1 and images * pixels > l2:
        traffic += 2 * geometry.n * pixels  # copies are written out and read back
    return _slowness(geometry, tile, lanes) + traffic / _FAR_BYTES / work


def _traffic(
    geometry: Geometry, tile: DirectTile, block: str, images: int, item: int, l2: float, lanes: int
) -> float:
    weights = geometry.k * geometry.group_c * geometry.taps * item
    image = prod(axis.padded for axis in geometry.axes) * geometry.c * item
    _, p, _ = _output_sizes(geometry)
    panels = -(-vector_channels(geometry) // (tile.vectors * lanes))
    rounds = geometry.n // images
    filter_passes = {
        "tile": geometry.n * -(-p // tile.rows),
        "rows": geometry.n * -(-p // _some_rows(tile)),
        "image": geometry.n,
        "all": rounds,
        PANEL: 1,
    }[block]
    image_passes = 1 if block in ("tile", "rows") else panels
    held = images * image if block in ("all", PANEL) else image
    again = weights * (filter_passes if weights > l2 else 1)
    if weights > l2 and block != PANEL:
        again += 2 * weights  # panels are written out and read back
    return again + geometry.n * image * (image_passes if held > l2 else 1)


def _filter_traffic(
    geometry: Geometry, tile: DirectTile, block: str, images: int, item: int, l2: float, lanes: int
) -> float:
    rows = geometry.axes[1].result
    passes = {
        "tile": geometry.n * geometry.axes[0].result * rows,
        "rows": geometry.n * geometry.axes[0].result * -(-rows // _ROWS),
        "image": geometry.n,
        "all": geometry.n // images,
        PANEL: 1,
    }[block]
    size = geometry.k * geometry.group_c * geometry.taps * item
    out = 2 * size * passes
    if size > l2 and block != PANEL and not geometry.channels_last:
        out += 2 * size  # written out and read back before it is transposed
    pixels = (geometry.c + geometry.k) * geometry.n * geometry.result_pixels * item
    held = pixels / passes
    tiles = geometry.taps * -(-vector_channels(geometry) // (tile.vectors * lanes))
    return out * 0.5 + pixels * (tiles if held > l2 else 1)
