"""Sizes of a Winograd convolution: its tiles, its rounds, and the memory between its stages.

Products have channels for columns, and for rows tiles (or channels too, where filters are wanted:
then the sums run over tiles). Rounds are over blocks of tiles, or over blocks of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.winograd_lines import Winograd
from skipjack.solvers.loops.packed_parts import Recipe

_LINE_BYTES = 64
"""Of a cache."""
_FEW = 8
"""Things a multiple of so many lines apart share too few places in a cache."""
Planes = Literal["rows", "columns", "products"]
"""Of the operands: tiles (or rows) by channels that are summed over, panels of columns."""


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def spaced(size: int) -> int:
    """Whole cache lines, and one more where things so far apart fight for places in a cache."""
    lines = -(-size // _LINE_BYTES)
    return (lines + (lines % _FEW == 0)) * _LINE_BYTES


@dataclass(frozen=True)
class Plan:
    """One convolution with one config."""

    geometry: Geometry
    winograd: Winograd
    recipe: Recipe
    over: str
    """Rounds are over "tiles" or over "columns"."""
    block: int
    """Tiles of a round, at most; or columns, up to whole panels."""
    threads: int
    share: str
    """What threads share out: "rounds", or the work of one of the "stages" after the other."""

    # Tiles

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles of one image."""
        role: Role = "image" if self.geometry.wanted == "image" else "result"
        _, y, x = self.geometry.axes
        size = self.winograd.size
        return -(-getattr(y, role) // size), -(-getattr(x, role) // size)

    @cached_property
    def rows(self) -> int:
        """Of tiles of an image, in one round; all of them, or parts of about the same size."""
        high, wide = self.grid
        if self.over != "tiles":
            return high
        return -(-high // -(-high // max(1, min(high, self.block // wide))))

    @cached_property
    def images(self) -> int:
        """In one round: one, or several whole ones."""
        high, wide = self.grid
        if self.over != "tiles":
            return self.geometry.n
        return max(1, min(self.geometry.n, self.block // (high * wide)))

    @property
    def parts(self) -> int:
        """Rounds that one image takes."""
        return -(-self.grid[0] // self.rows)

    @property
    def tiles(self) -> int:
        """Of a round, at most."""
        return self.images * self.rows * self.grid[1]

    # Channels

    @property
    def columns_are_results(self) -> bool:
        """Whether columns of the products are channels of the result, or of the image."""
        g = self.geometry
        # Gradients of filters are written in vectors of channels of the image where these lie side
        # by side in memory.
        return not g.channels_last if g.wanted == "filter" else g.wanted == "result"

    @property
    def length(self) -> int:
        """Channels that are summed over, or that are rows where filters are wanted."""
        return self.geometry.c if self.columns_are_results else self.geometry.k

    @property
    def columns(self) -> int:
        """Channels that are columns."""
        return self.geometry.k if self.columns_are_results else self.geometry.c

    @cached_property
    def column_block(self) -> int:
        """Columns of a round, up to whole panels."""
        wide = self.recipe.columns
        every = _up(self.columns, wide)
        return min(every, _up(self.block, wide)) if self.over == "columns" else every

    # Rounds

    @property
    def block_sizes(self) -> tuple[int, int, int]:
        """What tells its rounds from others."""
        return self.images, self.rows, self.column_block

    @property
    def rounds(self) -> int:
        """How many."""
        if self.over == "tiles":
            return self.parts * -(-self.geometry.n // self.images)
        return -(-self.columns // self.column_block)

    @property
    def threads_of_rounds(self) -> int:
        """Threads that do whole rounds each."""
        return self.threads if self.share == "rounds" else 1

    # Memory

    @property
    def points(self) -> int:
        """Planes of an operand."""
        return self.winograd.points**2

    @property
    def capacity(self) -> int:
        """Tiles that planes have room for."""
        return _up(self.tiles, self.recipe.rows)

    @property
    def summed_over_tiles(self) -> bool:
        """Whether filters are wanted."""
        return self.geometry.wanted == "filter"

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.recipe.vector.item_bytes

    def row_bytes(self, channels: int) -> int:
        """Of the channels of a tile, or of a row of products."""
        return spaced(channels * self.item)

    @property
    def panel_bytes(self) -> int:
        """Of a panel of columns."""
        depth = self.capacity if self.summed_over_tiles else self.length
        return depth * self.recipe.columns * self.item

    def plane_bytes(self, planes: Planes) -> int:
        """From one point to the next."""
        if planes == "rows":
            return spaced(self.capacity * self.row_bytes(self.length))
        if planes == "columns":
            return spaced(self.panel_bytes * (self.column_block // self.recipe.columns))
        rows = _up(self.length, self.recipe.rows) if self.summed_over_tiles else self.capacity
        return spaced(rows * self.row_bytes(self.column_block))

    def bytes_of(self, planes: Planes) -> int:
        """Of all points."""
        # Register tiles that stick out of the rows go a little beyond the last plane.
        beyond = self.recipe.rows * self.row_bytes(max(self.length, self.column_block))
        return self.points * self.plane_bytes(planes) + beyond

    def scratch(self, planes: Planes) -> str:
        """The memory of all points."""
        return scratch_slot(planes, self.bytes_of(planes))

    @property
    def all_bytes(self) -> int:
        """Of all planes, of one thread."""
        return self.bytes_of("rows") + self.bytes_of("columns") + self.bytes_of("products")
