"""The spaces of matrix products on GPUs, and which configs can run at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import nsmallest
from typing import Any

from skipjack.core import LISTABLE, Config, Device, Parameter, ParameterSpace, Value
from skipjack.gpu import KNOWN, GpuLimits
from skipjack.solvers.gpu.gemm.estimate import thin_ns, tiled_ns
from skipjack.solvers.gpu.gemm.product import MatrixProduct

_SIMILAR = 0.05
WALKS = ("once", "flat", "nested")
"""One tile for each program; or persistent, with the loops over tiles and K fused or nested."""


@dataclass(frozen=True, slots=True)
class TiledConfig:
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
    """Whether kernels of the plan start before their predecessors have ended."""
    thirds: bool = False
    """Whether f32 is computed as three products in tf32 on matrix units, almost as exactly."""
    widen: bool = False
    """Whether operands whose rows do not begin at cache lines are copied, too."""

    @classmethod
    def of(cls, config: Config) -> TiledConfig:
        """The point of a config of this module's spaces."""
        values: dict[str, Any] = {f.name: config[f.name] for f in fields(cls) if f.name in config}
        return cls(**values)

    @property
    def descriptors(self) -> bool:
        """Whether the copy engine (TMA) loads blocks."""
        return self.walk != "addresses"

    @property
    def persistent(self) -> bool:
        """Whether each program computes several tiles."""
        return self.walk in ("flat", "nested")

    @property
    def is_shared(self) -> bool:
        """Whether all tiles are split along K, not only those of the last round."""
        return self.splits > 1 and not self.persistent


@dataclass(frozen=True, slots=True)
class ThinConfig:
    """A config of a thin product."""

    tile_n: int
    tile_k: int
    warps: int
    stages: int
    splits: int
    early: bool = False

    @classmethod
    def of(cls, config: Config) -> ThinConfig:
        """The point of a config of this module's spaces."""
        values: dict[str, Any] = {f.name: config[f.name] for f in fields(cls) if f.name in config}
        return cls(**values)


def shared_bytes(point: TiledConfig, product: MatrixProduct, limits: GpuLimits) -> int:
    """An upper estimate: the stages of both operands, and the tile while it is stored."""
    each = (point.tile_m + point.tile_n) * point.tile_k * product.element_bytes
    stages = point.stages if limits.kind == "cuda" else max(1, point.stages - 1)
    out = point.tile_m * point.tile_n * product.out_bytes // point.pieces
    if not limits.tma:
        return max(each * max(1, stages - 1), out)
    if point.is_shared:
        out = 0
    # The tile is stored through the memory of the loads, unless the next tile's loads use it.
    return each * stages + out if point.persistent else max(each * stages, out)


class DiverseSpace(ParameterSpace):
    """Lists promising configs of many kinds first: estimates of similar configs err together."""

    _KIND = ("tile_m", "tile_n", "splits", "walk", "swap", "widen")

    def promising(self, count: int) -> Sequence[Config]:
        """By estimate, with a growing penalty for further configs of the same kind."""
        seen: dict[tuple[Value | None, ...], int] = {}
        costs: list[tuple[float, int]] = []
        configs = super().promising(LISTABLE)
        for place, config in enumerate(configs):
            kind = tuple(config.get(name) for name in self._KIND)
            again = seen.get(kind, 0)
            seen[kind] = again + 1
            assert self._order is not None
            costs.append((self._order(config) * (1.0 + _SIMILAR * again), place))
        return [configs[place] for _, place in nsmallest(count, costs)]


def descriptor_space(product: MatrixProduct, device: Device) -> DiverseSpace:
    """The space of the solver that uses the copy engine (TMA)."""
    limits = KNOWN[device.arch]

    def fits(
        tile_m: int, tile_n: int, tile_k: int, warps: int, stages: int, splits: int,
        walk: str, swap: bool, pieces: int, early: bool, widen: bool,
    ) -> bool:  # fmt: skip
        point = TiledConfig(
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
        # With split K the loops cannot be fused; with fused loops, stores by addresses spill.
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
    return DiverseSpace(
        parameters,
        [fits],
        lambda config: _tiled_ns(product, device, TiledConfig.of(config)),
        default_by_order=True,
    )


def address_space(product: MatrixProduct, device: Device) -> DiverseSpace:
    """The space of the solver that uses plain addresses."""
    limits = KNOWN[device.arch]

    def fits(
        tile_m: int, tile_n: int, tile_k: int, warps: int, stages: int, splits: int, early: bool
    ) -> bool:
        if early != (limits.tma and splits > 1):
            return False
        point = TiledConfig(tile_m, tile_n, tile_k, warps, stages, 8, splits)
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
    return DiverseSpace(
        parameters,
        [fits],
        lambda config: _tiled_ns(product, device, _by_addresses(config)),
        default_by_order=True,
    )


def thin_space(product: MatrixProduct, device: Device) -> DiverseSpace:
    """The space of the solver for few rows."""
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
    return DiverseSpace(
        parameters,
        [fits],
        lambda config: thin_ns(product, device, ThinConfig.of(config)),
        default_by_order=True,
    )


def _by_addresses(config: Config) -> TiledConfig:
    return replace(TiledConfig.of(config), walk="addresses")


def _tiled_ns(product: MatrixProduct, device: Device, point: TiledConfig) -> float:
    shared = shared_bytes(point, product, KNOWN[device.arch])
    return tiled_ns(product, device, point, shared)


def _is_legal(point: TiledConfig) -> bool:
    """Whether the sums fit in registers, and the combination of options exists."""
    rows, columns = (point.tile_n, point.tile_m) if point.swap else (point.tile_m, point.tile_n)
    sums = rows * columns // (32 * point.warps)
    if point.persistent and point.swap:
        return False
    if point.swap and (point.pieces > 1 or point.tile_n < 64):
        return False
    if point.pieces > 1 and (point.tile_n < 128 or not point.persistent):
        return False
    return 2 <= sums <= 128


def _heights(product: MatrixProduct) -> tuple[int, ...]:
    """Heights of tiles: one tile covers few rows; many rows are not cut into thin tiles."""
    if product.m <= 64:
        return (max(16, 1 << (product.m - 1).bit_length()),)
    return tuple(tile for tile in (64, 128, 256) if tile < 2 * product.m)


def _widths(product: MatrixProduct) -> tuple[int, ...]:
    """Widths of tiles; narrow ones only if there are few tiles."""
    few = product.batch * product.m * product.n <= 1 << 20 or product.m <= 64
    choices = (32, 64, 128, 256) if few else (64, 128, 256)
    return tuple(tile for tile in choices if tile < 2 * product.n) or choices[:1]


def _depths(product: MatrixProduct, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Elements of K in a step, from sizes in bytes."""
    return tuple(size // product.element_bytes for size in sizes)


def _splits(product: MatrixProduct) -> tuple[int, ...]:
    most = 1 if product.is_long else product.k // 256
    return tuple(splits for splits in (1, 2, 3, 4, 6, 8, 16) if splits <= max(1, most))
