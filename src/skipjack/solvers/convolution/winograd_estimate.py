"""How long a Winograd convolution takes, by arithmetic alone: meant to order configs and solvers.

The unit is the cycle of a core that starts one multiply-add of whole vectors in each. Constants
were fitted to some hundred configs of the 3x3 layers of ResNet-50 on such a core.
"""

from __future__ import annotations

from math import log2

from skipjack.core.device import Device
from skipjack.native.cpu import registers_of
from skipjack.solvers.convolution.winograd_plan import Plan, Planes

_UNDER_WAY = 10
"""Multiply-adds that must be under way at once to hide their latency."""
_TILE, _VECTOR_OF_C = 20.0, 1.5
"""A register tile that is begun, and a vector of it that is written."""
_READ, _WRITTEN, _FILTER, _TURNED = 5.0, 4.0, 5.0, 5.0
"""A vector of one point: of a tile, of a result, of a filter; a vector that is turned."""
_LINE_BYTES = 64
_STRIDED, _STREAMED, _AGAIN = 6.0, 3.5, 0.4
"""A cache line per doubling of the footprint beyond L2: written and read point by point; written
once; read again in a round."""
_MEMORY = 15.0
"""A cache line that comes from memory."""
_STAGE, _WAIT = 300.0, 5000.0
"""A stage of a round, and threads that wait for each other after it."""


def estimate(plan: Plan, device: Device) -> float:
    """Cycles until the last thread is done."""
    return _Estimate(plan, device).total()


class _Estimate:
    def __init__(self, plan: Plan, device: Device) -> None:
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
        turned = 0.0 if plan.geometry.channels_last else _TURNED * plan.winograd.size**2
        return self.tiles * self._vectors(channels) * (plan.points * cost + turned)

    def _filters(self) -> float:
        plan = self.plan
        return plan.points * plan.length * self._vectors(plan.columns) * _FILTER

    def _columns(self) -> float:
        """What makes the columns of the products, and filters of these if they are wanted."""
        if not self.plan.summed_over_tiles:
            return self._filters()
        return self._filters() + self._tiles(self.plan.columns, _READ)

    # Memory

    def _bytes(self, planes: Planes) -> int:
        return self.plan.points * self.plan.plane_bytes(planes)

    def _lines(self, planes: Planes) -> float:
        return self._bytes(planes) / _LINE_BYTES

    def _beyond_l2(self, *planes: Planes) -> float:
        """How many times the footprint of some planes doubles from what L2 holds."""
        return max(0.0, log2(sum(map(self._bytes, planes)) / self.l2))

    def _passing(self, lasting: Planes) -> float:
        """Of planes that every round makes anew."""
        every: tuple[Planes, ...] = ("rows", "columns", "products")
        passing = [planes for planes in every if planes != lasting]
        lines = sum(map(self._lines, passing)) * self.plan.rounds
        return lines * _STRIDED * self._beyond_l2(*passing)

    def _again(self, lasting: Planes) -> float:
        """Of planes that every round reads."""
        far = min(1.0, max(0.0, log2(self._bytes(lasting) / self.l3)))
        cost = _AGAIN * self._beyond_l2(lasting) + _MEMORY * far
        return self._lines(lasting) * self.plan.rounds * cost
