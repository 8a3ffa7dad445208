"""Sizes of a Winograd convolution (tiles, rounds, memory between stages), and its cost estimate.

Columns of the products are channels; rows are tiles, or channels too if the filter's gradient is
computed: then the sums run over tiles. Rounds are over blocks of tiles or blocks of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Literal

from skipjack.core import Device
from skipjack.native import registers_of, scratch_slot
from skipjack.operations import Geometry, Role
from skipjack.solvers.cpu.conv.winograd.transforms import Winograd
from skipjack.solvers.cpu.gemm import PackedRecipe

# The plan.

_LINE_BYTES = 64
"""Bytes of a cache line."""
_FEW = 8
"""Data that lies a multiple of this many lines apart shares too few cache sets."""
Planes = Literal["rows", "columns", "products"]
"""The operands (tiles, or rows, by channels that are summed over; panels of columns) and the
products."""


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def spaced(size: int) -> int:
    """Whole cache lines, and one more if data this far apart would compete for cache sets."""
    lines = -(-size // _LINE_BYTES)
    return (lines + (lines % _FEW == 0)) * _LINE_BYTES


@dataclass(frozen=True)
class WinogradPlan:
    geometry: Geometry
    winograd: Winograd
    recipe: PackedRecipe
    over: str
    """What rounds are over: "tiles" or "columns"."""
    block: int
    """Most tiles of a round; or columns, rounded up to whole panels."""
    threads: int
    share: str
    """What threads share out: "rounds", or the work of each of the "stages"."""

    # Tiles

    @cached_property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of tiles of one image."""
        role: Role = "image" if self.geometry.wanted == "image" else "result"
        _, y, x = self.geometry.axes
        size = self.winograd.size
        return -(-getattr(y, role) // size), -(-getattr(x, role) // size)

    @cached_property
    def rows(self) -> int:
        """Rows of tiles of an image in one round: all of them, or parts of about the same size."""
        high, wide = self.grid
        if self.over != "tiles":
            return high
        return -(-high // -(-high // max(1, min(high, self.block // wide))))

    @cached_property
    def images(self) -> int:
        """Images in one round: one, or several whole images."""
        high, wide = self.grid
        if self.over != "tiles":
            return self.geometry.n
        return max(1, min(self.geometry.n, self.block // (high * wide)))

    @property
    def parts(self) -> int:
        """Rounds per image."""
        return -(-self.grid[0] // self.rows)

    @property
    def tiles(self) -> int:
        """Most tiles of a round."""
        return self.images * self.rows * self.grid[1]

    # Channels

    @property
    def columns_are_results(self) -> bool:
        """Whether columns of the products are channels of the result instead of the image."""
        g = self.geometry
        # Gradients of filters are written in vectors of channels of the image if these lie side by
        # side in memory.
        return not g.channels_last if g.wanted == "filter" else g.wanted == "result"

    @property
    def length(self) -> int:
        """Channels that are summed over; for the filter's gradient, channels that are rows."""
        return self.geometry.c if self.columns_are_results else self.geometry.k

    @property
    def columns(self) -> int:
        """Channels that are columns."""
        return self.geometry.k if self.columns_are_results else self.geometry.c

    @cached_property
    def column_block(self) -> int:
        """Columns of a round, rounded up to whole panels."""
        wide = self.recipe.columns
        every = _up(self.columns, wide)
        return min(every, _up(self.block, wide)) if self.over == "columns" else every

    # Rounds

    @property
    def block_sizes(self) -> tuple[int, int, int]:
        """The sizes of a round, which tell plans with equal rounds."""
        return self.images, self.rows, self.column_block

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        if self.over == "tiles":
            return self.parts * -(-self.geometry.n // self.images)
        return -(-self.columns // self.column_block)

    @property
    def threads_of_rounds(self) -> int:
        """Threads that run whole rounds."""
        return self.threads if self.share == "rounds" else 1

    # Memory

    @property
    def points(self) -> int:
        """The number of planes of an operand."""
        return self.winograd.points**2

    @property
    def capacity(self) -> int:
        """The number of tiles that planes have room for."""
        return _up(self.tiles, self.recipe.rows)

    @property
    def summed_over_tiles(self) -> bool:
        """Whether sums run over tiles, for the filter's gradient."""
        return self.geometry.wanted == "filter"

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.recipe.vector.item_bytes

    def row_bytes(self, channels: int) -> int:
        """Bytes of the channels of a tile, or of a row of products."""
        return spaced(channels * self.item)

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel of columns."""
        depth = self.capacity if self.summed_over_tiles else self.length
        return depth * self.recipe.columns * self.item

    def plane_bytes(self, planes: Planes) -> int:
        """Bytes from one point to the next."""
        if planes == "rows":
            return spaced(self.capacity * self.row_bytes(self.length))
        if planes == "columns":
            return spaced(self.panel_bytes * (self.column_block // self.recipe.columns))
        rows = _up(self.length, self.recipe.rows) if self.summed_over_tiles else self.capacity
        return spaced(rows * self.row_bytes(self.column_block))

    def bytes_of(self, planes: Planes) -> int:
        """Bytes of all points."""
        # Register tiles that exceed the rows reach a little beyond the last plane.
        beyond = self.recipe.rows * self.row_bytes(max(self.length, self.column_block))
        return self.points * self.plane_bytes(planes) + beyond

    def scratch(self, planes: Planes) -> str:
        """The scratch slot of all points."""
        return scratch_slot(planes, self.bytes_of(planes))

    @property
    def all_bytes(self) -> int:
        """Bytes of all planes, for one thread."""
        return self.bytes_of("rows") + self.bytes_of("columns") + self.bytes_of("products")


# The cost estimate, by arithmetic alone: meant to order configs and solvers.
#
# The unit is the cycle of a core that starts one multiply-add of whole vectors per cycle.
# Constants were fitted to some hundred configs of the 3x3 layers of ResNet-50 on such a core.

_UNDER_WAY = 10
"""Multiply-adds that must be in flight to hide their latency."""
_TILE, _VECTOR_OF_C = 20.0, 1.5
"""Starting a register tile, and writing a vector of it."""
_READ, _WRITTEN, _FILTER, _TRANSPOSED = 5.0, 4.0, 5.0, 5.0
"""A vector of one point: of a tile, of a result, of a filter; a vector that is transposed."""
_STRIDED, _STREAMED, _AGAIN = 6.0, 3.5, 0.4
"""A cache line, per doubling of the footprint above L2: written and read point by point; written
once; read again in a round."""
_MEMORY = 15.0
"""A cache line from memory."""
_STAGE, _WAIT = 300.0, 5000.0
"""A stage of a round, and the wait of all threads after it."""


def estimate(plan: WinogradPlan, device: Device) -> float:
    return _Estimate(plan, device).total()


class _Estimate:
    def __init__(self, plan: WinogradPlan, device: Device) -> None:
        self.plan, self.device = plan, device
        self.lanes = plan.recipe.vector.lanes
        self.over_tiles = plan.over == "tiles"
        self.l2 = 0.4 * (device.cache_bytes("L2") or 1 << 20)
        self.l3 = 0.4 * (device.cache_bytes("L3") or 8 << 20)
        high, wide = plan.grid
        self.tiles = plan.geometry.n * high * wide

    def total(self) -> float:
        plan = self.plan
        rows, columns = self._tiles(plan.length, _READ), self._columns()
        lasting: Planes = "columns" if self.over_tiles else "rows"
        before, inside = (columns, rows) if self.over_tiles else (rows, columns)
        if plan.summed_over_tiles and self.over_tiles:
            lasting = "products"
            before, inside = self._filters(), rows + self._tiles(plan.columns, _READ)
        elif not plan.summed_over_tiles:
            inside += self._tiles(plan.columns, _WRITTEN)
        before += self._lines(lasting) * _STREAMED * self._beyond_l2(lasting)
        inside += self._products() + self._passing(lasting) + self._again(lasting)
        inside += plan.rounds * _STAGE * 4
        return self._shared(before, inside)

    def _shared(self, before: float, inside: float) -> float:
        plan = self.plan
        threads = plan.threads
        if threads == 1:
            return before + inside
        if plan.share == "rounds":
            most = -(-plan.rounds // threads)
            return before / threads + _WAIT + inside * most / plan.rounds
        return (before + inside) / threads + _WAIT * (1 + 3 * plan.rounds)

    # Arithmetic

    def _products(self) -> float:
        plan, recipe = self.plan, self.plan.recipe
        rounds = plan.rounds if self.over_tiles else 1
        panels = -(-plan.columns // recipe.columns)
        if plan.summed_over_tiles:
            rows, depth, times = plan.length, self.tiles, 2 * rounds - 1
        else:
            rows, depth, times = -(-self.tiles // rounds), plan.length * rounds, rounds
        calls = -(-rows // recipe.rows)
        done = max(rows, calls * (recipe.rows - 1))
        steps = recipe.rows * recipe.vectors
        inner = 1.0 + 0.1 * (recipe.rows + recipe.vectors) / steps
        if steps + recipe.vectors + 1 > registers_of(self.device) - 2:
            inner += 0.08
        inner = max(inner, _UNDER_WAY / steps)
        vectors = plan.points * panels * recipe.vectors
        begun = plan.points * panels * calls * rounds * _TILE
        return vectors * done * (depth * inner + times * _VECTOR_OF_C) + begun

    def _vectors(self, channels: int) -> int:
        return -(-channels // self.lanes)

    def _tiles(self, channels: int, cost: float) -> float:
        plan = self.plan
        transposed = 0.0 if plan.geometry.channels_last else _TRANSPOSED * plan.winograd.size**2
        return self.tiles * self._vectors(channels) * (plan.points * cost + transposed)

    def _filters(self) -> float:
        plan = self.plan
        return plan.points * plan.length * self._vectors(plan.columns) * _FILTER

    def _columns(self) -> float:
        """Cycles of computing the columns of the products, and of storing the filter's gradient."""
        if not self.plan.summed_over_tiles:
            return self._filters()
        return self._filters() + self._tiles(self.plan.columns, _READ)

    # Memory

    def _bytes(self, planes: Planes) -> int:
        return self.plan.points * self.plan.plane_bytes(planes)

    def _lines(self, planes: Planes) -> float:
        return self._bytes(planes) / _LINE_BYTES

    def _beyond_l2(self, *planes: Planes) -> float:
        """How many times the footprint of some planes doubles from the size of L2."""
        return max(0.0, log2(sum(map(self._bytes, planes)) / self.l2))

    def _passing(self, lasting: Planes) -> float:
        """Cycles of the memory traffic of planes that every round computes again."""
        every: tuple[Planes, ...] = ("rows", "columns", "products")
        passing = [planes for planes in every if planes != lasting]
        lines = sum(map(self._lines, passing)) * self.plan.rounds
        return lines * _STRIDED * self._beyond_l2(*passing)

    def _again(self, lasting: Planes) -> float:
        """Cycles of the memory traffic of planes that every round reads."""
        far = min(1.0, max(0.0, log2(self._bytes(lasting) / self.l3)))
        cost = _AGAIN * self._beyond_l2(lasting) + _MEMORY * far
        return self._lines(lasting) * self.plan.rounds * cost
