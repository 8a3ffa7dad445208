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
from skipjack.solvers.loops.packed_product import Product

_UNDER_WAY = 10
"""Multiply-adds that must be under way at once to hide their latency."""
_TILE = 18.0
"""Beginning and ending a tile."""
_TURNED_COLUMN = 4.2
"""Writing a column of a tile whose rows lie side by side."""
_VECTOR_OF_C = 1.5
"""Reading and writing a vector of C once more."""
_VECTOR_OF_B = 6.3
"""Packing one vector of B: it comes from beyond L2."""
_SPILLED_VECTOR_OF_B = 0.65
"""The same where what was packed does not stay in L2, for each time that it would fill it."""
_ELEMENT_OF_A, _ELEMENT_OF_UPRIGHT_A = 0.51, 0.73
"""Packing one element of A."""
_EDGE_ROW = 4.4
"""A row or column of a tile that hangs over the edge goes through memory."""
_EDGE_ELEMENT_OF_A = 0.36
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product on a device."""

    product: Product
    lanes: int
    item: int
    device: Device


def parse_tile(tile: object) -> tuple[int, int]:
    """Rows, and vectors of columns."""
    rows, vectors = str(tile).split("x")
    return int(rows), int(vectors)


def estimate(config: Config, sizes: Sizes) -> float:
    """Relative time of a config."""
    return _Estimate(config, sizes).time()


class _Estimate:
    def __init__(self, config: Config, sizes: Sizes) -> None:
        self.sizes, self.product = sizes, sizes.product
        self.rows, self.vectors = parse_tile(config["tile"])
        self.columns = self.vectors * sizes.lanes
        self.pack_a, self.pack_b = bool(config["pack_a"]), bool(config.get("pack_b", True))
        self.m, self.groups, self.n = self._part(str(config["split"]))
        self.m_block = min(int(config["m_block"]), self.m)
        self.n_block = min(int(config["n_block"]), self.n)
        self.passes = self._passes(int(config["k_block"]))
        self.depth = self.product.depth / self.passes
        self.order = 0.0005 * int(config.get("unroll", 1))

    def time(self) -> float:
        """Of one thread."""
        steps = self.rows * self.vectors
        waste = _rounded_up(self.m, self.rows) / self.m * _rounded_up(self.n, self.columns) / self.n
        inner = 1.0 + 0.05 * (self.rows + self.vectors) / steps + self._crowding(steps)
        inner = max(inner, _UNDER_WAY / steps) + self._cache_misses()
        return waste * (inner + self._writing(steps)) + self._packing() + self._edges() + self.order

    def _part(self, split: str) -> tuple[int, int, int]:
        """Rows, groups of them and columns of one thread."""
        product, threads = self.product, self.sizes.device.units
        sizes = {"rows": product.m, "groups": product.groups.count, "columns": product.n}
        if split in sizes:
            sizes[split] = -(-sizes[split] // threads)
        return sizes["rows"], sizes["groups"], sizes["columns"]

    def _passes(self, k_block: int) -> int:
        """How often C is written."""
        product = self.product
        if self.pack_a and self.pack_b:
            together = max(1, min(k_block // product.k, product.slices.count))
        else:
            together = 1
        return -(-product.slices.count // together) * -(-product.k // min(k_block, product.k))

    def _crowding(self, steps: int) -> float:
        """Nothing may be left for what the compiler needs besides."""
        left = registers_of(self.sizes.device) - (steps + self.vectors + 1)
        turned = self.product.out.column != 1
        return 0.0 if left >= 2 else 0.08 if turned and left < 0 else 0.012

    def _writing(self, steps: int) -> float:
        cycles = _TILE + (_VECTOR_OF_C * steps if self.passes > 1 else 0.0)
        if self.product.out.column != 1:
            cycles += _TURNED_COLUMN * self.columns
        return cycles / (steps * self.depth)

    def _cache_misses(self) -> float:
        device, item = self.sizes.device, self.sizes.item
        panel = self.depth * self.columns * item
        block = self.m_block * self.depth * item
        l1, l2 = device.cache_bytes("L1") or 1 << 15, device.cache_bytes("L2") or 1 << 20
        streaming = 0.11 * item * self.sizes.lanes / self.rows / 64 if panel > l1 else 0.0
        spilling = 0.11 * min(3.0, max(0.0, (panel + block) / l2 - 1.0))
        return streaming + spilling + self._fighting()

    def _fighting(self) -> float:
        """Steps or rows of A that lie a multiple of a page apart fight for the same lines of L1."""
        a, item = self.product.a, self.sizes.item
        if self.pack_a:
            return 0.0
        if a.column != 1:
            return 0.012 if a.column * item % (_PAGE // 2) == 0 else 0.0
        return 0.022 * max(0, self.rows - 6) if a.row * item % _PAGE == 0 else 0.0

    def _packing(self) -> float:
        """Of B for all rows, and of A for each block of columns."""
        product, item = self.product, self.sizes.item
        cycles = 0.0
        if self.pack_b:
            l2 = self.sizes.device.cache_bytes("L2") or 1 << 20
            again = min(3.0, max(0.0, self.n_block * self.depth * item / l2 - 1.0))
            vectors = _VECTOR_OF_B + _SPILLED_VECTOR_OF_B * again
            cycles += vectors / (self.m * self.groups)
        if self.pack_a:
            element = _ELEMENT_OF_A if product.a.column == 1 else _ELEMENT_OF_UPRIGHT_A
            cycles += element * self.sizes.lanes / self.n_block
        return cycles

    def _edges(self) -> float:
        """Tiles that hang over are written through memory; rows of A are packed for them."""
        over_m, over_n = self.m % self.rows != 0, self.n % self.columns != 0
        lines = (self.rows / self.m if over_m else 0.0) + (self.columns / self.n if over_n else 0.0)
        packed = self.rows / self.m / self.vectors if over_m and not self.pack_a else 0.0
        return _EDGE_ROW * lines / self.depth + _EDGE_ELEMENT_OF_A * packed


def _rounded_up(size: int, to: int) -> int:
    return -(-size // to) * to
