"""How long a packed matrix product takes, by arithmetic alone: meant to order configs.

The unit is the time of the multiply-adds that the product needs at the core's full rate. Constants
are in cycles on a core that starts one multiply-add of whole vectors in each.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.native.cpu import registers_of

_UNDER_WAY = 10
"""Multiply-adds that must be under way at once to hide their latency."""
_ELEMENT_OF_A = 0.6
"""Packing one element of A."""
_VECTOR_OF_B = 7.0
"""Packing one vector of B: it comes from beyond L2."""
_SHORT_ROW_BYTES = 1024
"""Rows of a block of B as short as this cost twice as much: each begins a stream of its own."""
_VECTOR_OF_C, _TILE = 8.0, 60.0
"""A vector of C that is read and written again, and a tile that is begun, per block of K."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product on a device."""

    m: int
    n: int
    k: int
    lanes: int
    item: int
    device: Device


def parse_tile(tile: object) -> tuple[int, int]:
    """Rows, and vectors of columns."""
    rows, vectors = str(tile).split("x")
    return int(rows), int(vectors)


def estimate(config: Config, sizes: Sizes) -> float:
    """Relative time of a config."""
    rows, vectors = parse_tile(config["tile"])
    m, n = _part(config, sizes)
    steps, columns = rows * vectors, vectors * sizes.lanes
    waste = _rounded_up(m, rows) / m * _rounded_up(n, columns) / n
    inner = 1.0 + 0.1 * (rows + vectors) / steps + _crowding(steps + vectors + 1, sizes)
    inner = max(inner, _UNDER_WAY / steps) + _cache_misses(config, sizes, rows, columns)
    passes = -(-sizes.k // int(config["k_block"]))
    accumulating = passes * (_VECTOR_OF_C * steps + _TILE) / (steps * sizes.k)
    order = 0.0005 * int(config["unroll"])
    return waste * (inner + accumulating) + _packing(config, sizes, m, n) + order


def _part(config: Config, sizes: Sizes) -> tuple[int, int]:
    """Rows and columns of one thread."""
    threads = sizes.device.units
    m = -(-sizes.m // threads) if config["split"] == "rows" else sizes.m
    n = -(-sizes.n // threads) if config["split"] == "columns" else sizes.n
    return m, n


def _rounded_up(size: int, to: int) -> int:
    return -(-size // to) * to


def _crowding(registers: int, sizes: Sizes) -> float:
    """Nothing may be left for what the compiler needs besides."""
    return 0.08 if registers > registers_of(sizes.device) - 2 else 0.0


def _cache_misses(config: Config, sizes: Sizes, rows: int, columns: int) -> float:
    device, item = sizes.device, sizes.item
    k_block = int(config["k_block"])
    panel = k_block * columns * item
    block = min(int(config["m_block"]), sizes.m) * k_block * item
    l1, l2 = device.cache_bytes("L1") or 1 << 15, device.cache_bytes("L2") or 1 << 20
    streaming = 0.08 * item * sizes.lanes / rows / 64 if panel > l1 else 0.0
    spilling = 0.05 * min(3.0, max(0.0, (panel + block) / l2 - 1.0))
    # Rows of A that lie a multiple of a page apart fight for the same lines of L1.
    fighting = sizes.k * item % 4096 == 0 and not config["pack_a"]
    return streaming + spilling + (0.04 * max(0, rows - 6) if fighting else 0.0)


def _packing(config: Config, sizes: Sizes, m: int, n: int) -> float:
    width = min(int(config["n_block"]), n)
    block = width * int(config["k_block"]) * sizes.item
    l2 = sizes.device.cache_bytes("L2") or 1 << 20
    # What does not stay in L2 is written out and read back.
    again = min(1.0, max(0.0, block / l2 - 1.0))
    short = _SHORT_ROW_BYTES / (width * sizes.item)
    of_b = _VECTOR_OF_B * (1.0 + short + again) / m
    return of_b + (_ELEMENT_OF_A * sizes.lanes / width if config["pack_a"] else 0.0)
