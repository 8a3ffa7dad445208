"""What may vary in matrix products on GPUs, and which configs can run at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import nsmallest
from typing import Any

from skipjack.core.config import Config, Value
from skipjack.core.device import Device
from skipjack.core.parameters import LISTABLE, Parameter, ParameterSpace
from skipjack.gpu.architectures import KNOWN, GpuLimits
from skipjack.solvers.gpu.matmul_estimate import thin_ns, tiled_ns
from skipjack.solvers.gpu.product import Product

_KINDRED = 0.05
WALKS = ("once", "flat", "nested")
"""One tile a program; persistent, with the loops over tiles and over K made one, or not."""


@dataclass(frozen=True, slots=True)
class TilePoint:
    """A config of a tiled product."""

    tile_m: int
    tile_n: int
    tile_k: int
    warps: int
    stages: int
    group: int = 8
    splits: int = 1
    walk: str = "once"
    swap: bool = False
    pieces: int = 1
    early: bool = False
    """Whether kernels of the plan start before the one before them has ended."""
    thirds: bool = False
    """Whether f32 is multiplied as three products in tf32, nearly as exact, on matrix units."""
    widen: bool = False
    """Whether operands are copied too whose rows only begin within a cache line."""

    @classmethod
    def of(cls, config: Config) -> TilePoint:
        """Of a space of this file."""
        values: dict[str, Any] = {f.name: config[f.name] for f in fields(cls) if f.name in config}
        return cls(**values)

    @property
    def descriptors(self) -> bool:
        """Whether the copy engine brings blocks."""
        return self.walk != "addresses"

    @property
    def persistent(self) -> bool:
        """Whether programs walk over tiles."""
        return self.walk in ("flat", "nested")

    @property
    def is_shared(self) -> bool:
        """Whether all tiles are cut into shares of K, and not just those of the last round."""
        return self.splits > 1 and not self.persistent


@dataclass(frozen=True, slots=True)
class ThinPoint:
    """A config of a thin product."""

    tile_n: int
    tile_k: int
    warps: int
    stages: int
    splits: int
    early: bool = False

    @classmethod
    def of(cls, config: Config) -> ThinPoint:
        """Of a space of this file."""
        values: dict[str, Any] = {f.name: config[f.name] for f in fields(cls) if f.name in config}
        return cls(**values)


def shared_bytes(point: TilePoint, product: Product, limits: GpuLimits) -> int:
    """An estimate from above: the stages of both operands, and the tile on its way out."""
    each = (point.tile_m + point.tile_n) * point.tile_k * product.element_bytes
    stages = point.stages if limits.kind == "cuda" else max(1, point.stages - 1)
    out = point.tile_m * point.tile_n * product.out_bytes // point.pieces
    if not limits.tma:
        return max(each * max(1, stages - 1), out)
    if point.is_shared:
        out = 0
    # The tile leaves through the memory of the loads unless the next tile's loads are there.
    return each * stages + out if point.persistent else max(each * stages, out)


class VariedSpace(ParameterSpace):
    """Names promising configs of many kinds first: estimates of kindred ones go wrong together."""

    _KIND = ("tile_m", "tile_n", "splits", "walk", "swap", "widen")

    def promising(self, count: int) -> Sequence[Config]:
        """By the order, in which every further config of a kind is put back a little."""
        seen: dict[tuple[Value | None, ...], int] = {}
        costs: list[tuple[float, int]] = []
        configs = super().promising(LISTABLE)
        for place, config in enumerate(configs):
            kind = tuple(config.get(name) for name in self._KIND)
            again = seen.get(kind, 0)
            seen[kind] = again + 1
            assert self._order is not None
            costs.append((self._order(config) * (1.0 + _KINDRED * again), place))
        return [configs[place] for _, place in nsmallest(count, costs)]


def descriptor_space(product: Product, device: Device) -> VariedSpace:
    """Of the solver with the copy engine."""
    limits = KNOWN[device.arch]

    def fits(
        tile_m: int, tile_n: int, tile_k: int, warps: int, stages: int, splits: int,
        walk: str, swap: bool, pieces: int, early: bool, widen: bool,
    ) -> bool:  # fmt: skip
        point = TilePoint(
            tile_m,
            tile_n,
            tile_k,
            warps,
            stages,
            8,
            splits,
            walk,
            swap,
            pieces,
            early,
            widen=widen,
        )
        # Shares of K keep loops from being made one; where they are, stores by addresses spill.
        if walk != "once" and walk != ("nested" if splits > 1 else "flat" if stores_blocks else ""):
            return False
        if early != (splits > 1) and not (early and (widen or is_odd)):
            return False
        return _is_legal(point) and shared_bytes(point, product, limits) <= limits.shared_bytes

    stores_blocks = product.row_is_aligned(product.out)
    is_odd = any(not product.row_is_aligned(one) for one in (product.a, product.b))
    within = any(
        product.row_is_aligned(one) and not product.row_is_aligned(one, 128)
        for one in (product.a, product.b)
    )
    splits = _splits(product)
    parameters = [
        Parameter("tile_m", _heights(product)),
        Parameter("tile_n", _widths(product)),
        Parameter("tile_k", _depths(product, (128, 256))),
        Parameter("warps", (4, 8)),
        Parameter("stages", (3, 4, 5, 6)),
        Parameter("group", (4, 8, 16)),
        Parameter("splits", splits),
        Parameter("walk", WALKS),
        Parameter("swap", (False, True) if product.m <= 64 else (False,)),
        Parameter("pieces", (1, 2)),
        Parameter("early", (False, True)),
        Parameter("widen", (False, True) if within else (False,)),
    ]
    return VariedSpace(
        parameters,
        [fits],
        lambda config: _tiled_ns(product, device, TilePoint.of(config)),
        default_by_order=True,
    )


def address_space(product: Product, device: Device) -> VariedSpace:
    """Of the solver with plain addresses."""
    limits = KNOWN[device.arch]

    def fits(
        tile_m: int, tile_n: int, tile_k: int, warps: int, stages: int, splits: int, early: bool
    ) -> bool:
        if early != (limits.tma and splits > 1):
            return False
        point = TilePoint(tile_m, tile_n, tile_k, warps, stages, 8, splits)
        return _is_legal(point) and shared_bytes(point, product, limits) <= limits.shared_bytes

    parameters = [
        Parameter("tile_m", _heights(product)),
        Parameter("tile_n", _widths(product)),
        Parameter("tile_k", _depths(product, (64, 128, 256))),
        Parameter("warps", (4, 8)),
        Parameter("stages", (2, 3, 4, 5) if limits.kind == "cuda" else (2, 3)),
        Parameter("group", (1, 8)),
        Parameter("splits", _splits(product)),
        Parameter("early", (False, True) if limits.tma else (False,)),
    ]
    if product.dtype == "f32" and limits.kind == "cuda":
        parameters.append(Parameter("thirds", (True, False)))
    return VariedSpace(
        parameters,
        [fits],
        lambda config: _tiled_ns(product, device, _by_addresses(config)),
        default_by_order=True,
    )


def thin_space(product: Product, device: Device) -> VariedSpace:
    """Of the solver for few rows."""
    rows = 1 << (product.m - 1).bit_length()
    tma = KNOWN[device.arch].tma

    def fits(tile_n: int, tile_k: int, warps: int, stages: int, splits: int, early: bool) -> bool:
        if early != (tma and splits > 1):
            return False
        sums = rows * tile_n * tile_k // (32 * warps)
        block = tile_n * tile_k * product.element_bytes
        return 8 <= sums <= 64 and block * stages <= 96 << 10 and block >= 512 * warps

    parameters = [
        Parameter("tile_n", (16, 32, 64, 128, 256, 512)),
        Parameter("tile_k", (16, 32, 64, 128, 256, 512)),
        Parameter("warps", (1, 2, 4, 8)),
        Parameter("stages", (2, 3, 4, 6)),
        Parameter("splits", (1, 2, 4, 8, 16)),
        Parameter("early", (False, True) if tma else (False,)),
    ]
    return VariedSpace(
        parameters,
        [fits],
        lambda config: thin_ns(product, device, ThinPoint.of(config)),
        default_by_order=True,
    )


def _by_addresses(config: Config) -> TilePoint:
    return replace(TilePoint.of(config), walk="addresses")


def _tiled_ns(product: Product, device: Device, point: TilePoint) -> float:
    shared = shared_bytes(point, product, KNOWN[device.arch])
    return tiled_ns(product, device, point, shared)


def _is_legal(point: TilePoint) -> bool:
    """Registers for the sums, and halves that are blocks."""
    rows, columns = (point.tile_n, point.tile_m) if point.swap else (point.tile_m, point.tile_n)
    sums = rows * columns // (32 * point.warps)
    if point.persistent and point.swap:
        return False
    if point.swap and (point.pieces > 1 or point.tile_n < 64):
        return False
    if point.pieces > 1 and (point.tile_n < 128 or not point.persistent):
        return False
    return 2 <= sums <= 128


def _heights(product: Product) -> tuple[int, ...]:
    """Rows of tiles: few rows are one tile, many are never cut into thin ones."""
    if product.m <= 64:
        return (max(16, 1 << (product.m - 1).bit_length()),)
    return tuple(tile for tile in (64, 128, 256) if tile < 2 * product.m)


def _widths(product: Product) -> tuple[int, ...]:
    """Columns of tiles; narrow ones only where there are few tiles."""
    few = product.batch * product.m * product.n <= 1 << 20 or product.m <= 64
    choices = (32, 64, 128, 256) if few else (64, 128, 256)
    return tuple(tile for tile in choices if tile < 2 * product.n) or choices[:1]


def _depths(product: Product, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Elements of K in a step, from sizes in bytes."""
    return tuple(size // product.element_bytes for size in sizes)


def _splits(product: Product) -> tuple[int, ...]:
    most = 1 if product.is_long else product.k // 256
    return tuple(splits for splits in (1, 2, 3, 4, 6, 8, 16) if splits <= max(1, most))
