"""How long a packed matrix product takes, by arithmetic alone: meant to order configs.

The unit is the time of the multiply-adds that the product needs at the core's full rate. Constants
are in cycles on a core that starts one multiply-add of whole vectors in each; they were fitted to
some thousand timings of products of all shapes, blocks and ways to read their operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.native.cpu import registers_of
from skipjack.solvers.loops.packed_product import Product, parse_tile
from skipjack.solvers.loops.packed_slots import grid_of

_TILE = 18.0
"""Beginning and ending a tile."""
_TURNED_COLUMN = 3.8
"""Writing a column of a tile whose rows lie side by side."""
_VECTOR_OF_C, _DISTANT_VECTOR_OF_C = 0.6, 3.2
"""Reading and writing a vector of C once more; the same where C does not fit into L2."""
_VECTOR_OF_B, _SPILLED_VECTOR_OF_B = 8.7, 0.26
"""Packing one vector of B; and for each time that what was packed would fill L2."""
_ELEMENT_OF_A, _ELEMENT_OF_UPRIGHT_A = 0.9, 1.24
"""Packing one element of A."""
_B_IN_PLACE, _UPRIGHT_IN_PLACE, _PAGES_APART = 0.021, 0.011, 0.019
"""Reading an operand in place, per step; steps of B a multiple of a page apart cost more."""
_EDGE_LINE, _EDGE_ELEMENT_OF_A = 3.4, 0.59
"""Lines of a tile that hang over the edge go through memory; rows of A are packed for them."""
_FEW, _MANY = 16, 16
"""Sums of a tile: fewer do not hide their latency, and of more too many are written at once."""
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product on a device."""

    product: Product
    lanes: int
    item: int
    device: Device


def estimate(config: Config, sizes: Sizes) -> float:
    """Relative time of a config."""
    return _Estimate(config, sizes).time()


def clipped(config: Config, sizes: Sizes) -> Config:
    """The config with blocks cut to one thread's share of rows and columns."""
    taken = _Estimate(config, sizes)
    return config.replace(m_block=taken.m_block, n_block=taken.n_block)


class _Estimate:
    def __init__(self, config: Config, sizes: Sizes) -> None:
        self.sizes, self.product = sizes, sizes.product
        self.rows, self.vectors = parse_tile(config["tile"])
        self.columns = self.vectors * sizes.lanes
        self.pack_a, self.pack_b = bool(config["pack_a"]), bool(config.get("pack_b", True))
        self.m, self.groups, self.n, self.waste = self._share(str(config["split"]))
        self.m_block = min(int(config["m_block"]), self.m)
        self.n_block = min(int(config["n_block"]), self.n)
        self.passes = self._passes(int(config["k_block"]))
        self.depth = self.product.depth / self.passes
        self.l2 = sizes.device.cache_bytes("L2") or 1 << 20
        self.far = self._far()
        self.order = 0.0005 * int(config.get("unroll", 1))

    def time(self) -> float:
        """Of one thread."""
        steps = self.rows * self.vectors
        inner = 1.0 + self._tile(steps) + self._in_place() + self._streaming()
        tiles = self.waste * (inner + self._writing(steps))
        return tiles + self._packing() + self._edges() + self.order

    def _far(self) -> float:
        """How much of the operands lies beyond the caches, from 0 to 1."""
        p = self.product
        m = p.m * p.groups.count
        elements = p.batch * (m * p.n + (m + p.n) * p.depth)
        return min(1.0, max(0.0, elements * self.sizes.item / (8 * self.l2) - 0.5))

    def _share(self, split: str) -> tuple[int, int, int, float]:
        """Rows, groups of them and columns of one thread; and what it computes in vain."""
        product, threads = self.product, self.sizes.device.units
        grid = grid_of(split)
        shared = {split: threads} if grid is None else {"rows": grid[0], "columns": grid[1]}
        waste, shares = 1.0, list[int]()
        for name, size, granule in (
            ("batch", product.batch, 1),
            ("rows", product.m, self.rows),
            ("groups", product.groups.count, 1),
            ("columns", product.n, self.columns),
        ):
            sharers = shared.get(name, 1)
            pieces = -(-size // granule)
            share = -(-pieces // sharers) * granule
            waste *= share * sharers / size
            shares.append(min(share, size))
        return shares[1], shares[2], shares[3], waste

    def _passes(self, k_block: int) -> int:
        """How often C is written."""
        product = self.product
        if self.pack_a and self.pack_b:
            together = max(1, min(k_block // product.k, product.slices.count))
        else:
            together = 1
        return -(-product.slices.count // together) * -(-product.k // min(k_block, product.k))

    def _tile(self, steps: int) -> float:
        """What its size costs."""
        few = 0.02 * max(0, _FEW - steps) / 8 + 0.033 * max(0.0, 12 / steps - 1)
        many = 0.016 * self.far * max(0, steps - _MANY) / 8
        # Nothing may be left for what the compiler needs besides.
        left = registers_of(self.sizes.device) - (steps + self.vectors + 1)
        return few + many + (0.006 if left < 2 else 0.0)

    def _in_place(self) -> float:
        """Rows or steps that lie a multiple of a page apart fight for the same lines of L1."""
        a, b, item = self.product.a, self.product.b, self.sizes.item
        cost = 0.0
        if not self.pack_b:
            cost += _B_IN_PLACE + 0.006 * self.far
            cost += _PAGES_APART if b.row * item % _PAGE == 0 else 0.0
        if not self.pack_a and a.column != 1:
            cost += _UPRIGHT_IN_PLACE
        elif not self.pack_a and a.row * item % _PAGE == 0:
            cost += 0.029 * max(0, self.rows - 6)
        return cost

    def _streaming(self) -> float:
        """A panel of B that does not fit into L1 is read again and again, and for each block."""
        panel = self.depth * self.columns * self.sizes.item
        l1 = self.sizes.device.cache_bytes("L1") or 1 << 15
        again = 0.039 * self.sizes.item * self.sizes.lanes / 64 / self.rows if panel > l1 else 0.0
        blocks = 0.4 * self.far / self.m_block if self.m_block < self.m else 0.0
        return again + blocks

    def _writing(self, steps: int) -> float:
        cycles = _TILE
        if self.product.out.column != 1:
            cycles += _TURNED_COLUMN * self.columns
        again = _VECTOR_OF_C * self.passes if self.passes > 1 else 0.0
        c_bytes = self.m * self.groups * self.n_block * self.sizes.item
        distant = min(1.0, max(0.0, c_bytes / self.l2 - 0.5))
        again += _DISTANT_VECTOR_OF_C * (self.passes - 1) * distant
        return cycles / (steps * self.depth) + again / self.product.depth

    def _packing(self) -> float:
        """Of B for all rows, and of A for each block of columns."""
        product, item = self.product, self.sizes.item
        cycles = 0.0
        if self.pack_b:
            again = min(3.0, max(0.0, self.n_block * self.depth * item / self.l2 - 1.0))
            vectors = _VECTOR_OF_B + _SPILLED_VECTOR_OF_B * again
            cycles += vectors / (self.m * self.groups)
        if self.pack_a:
            element = _ELEMENT_OF_A if product.a.column == 1 else _ELEMENT_OF_UPRIGHT_A
            cycles += element * self.sizes.lanes / self.n_block
        return cycles

    def _edges(self) -> float:
        """Of tiles that hang over."""
        over_m, over_n = self.product.m % self.rows != 0, self.product.n % self.columns != 0
        lines = (self.rows / self.m if over_m else 0.0) + (self.columns / self.n if over_n else 0.0)
        packed = self.rows / self.m / self.vectors if over_m and not self.pack_a else 0.0
        return _EDGE_LINE * lines / self.depth + _EDGE_ELEMENT_OF_A * packed
