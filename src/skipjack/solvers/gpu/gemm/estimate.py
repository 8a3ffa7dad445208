"""Estimated times of configs of products, from the sizes alone, to try the good configs first.

A tile is summed up in steps. The time of a step is the largest of three: the arithmetic of the
matrix units, the transfer of its blocks from the caches, and the latency of memory if too few bytes
are in flight. The constants were measured on an H200; for other GPUs only their ratios matter.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from skipjack.core import Device, Tensor
from skipjack.gpu import KNOWN, GpuLimits
from skipjack.solvers.gpu.gemm.product import MatrixProduct

if TYPE_CHECKING:
    from skipjack.solvers.gpu.gemm.spaces import ThinConfig, TiledConfig


_CLOCK = 1.7
"""Cycles per nanosecond."""
_LAUNCH_NS, _JOIN_NS, _REST_NS, _WIDEN_NS = 2000.0, 1300.0, 6000.0, 1500.0
_MEMORY, _COPY = 4200.0, 3000.0
"""Bytes per nanosecond of memory reads, and of widening operands."""
_CACHE = 68.0
"""Bytes per cycle from the shared cache to a unit."""
_LATENCY = 1700.0
"""Cycles to load a block that no other program has requested."""
_RATES = {"sm_90": 2048, "sm_80": 1024, "gfx90a": 512, "gfx942": 1024}
"""16-bit multiplications per cycle and unit; 512 for other architectures."""
_WITHIN_LINES = 0.6
_ELEMENTWISE = 0.1
"""Relative speed of reading rows that begin within cache lines, or element by element."""


def tiled_ns(
    product: MatrixProduct, device: Device, point: TiledConfig, shared_bytes: int
) -> float:
    """Estimated time of a tiled product."""
    limits = KNOWN[device.arch]
    units = device.units
    tiles = ceil(product.m / point.tile_m) * ceil(product.n / point.tile_n) * product.batch
    resident = 1 if point.persistent else _resident_programs(point, limits, shared_bytes)
    programs = tiles * point.splits if point.is_shared else tiles
    steps = ceil(product.k / point.tile_k / (point.splits if point.is_shared else 1))
    fixed = _LATENCY * 0.6 + point.tile_m * point.tile_n / 32

    def cycles_of(busy: int, cold: bool) -> float:
        each = fixed * (0.4 if point.persistent and not cold else 1.0)
        return steps * _step_cycles(product, point, limits, busy, cold) + each

    rounds, rest = divmod(programs, units * resident)
    cold = rounds + (rest > 0) <= 1
    cycles = rounds * cycles_of(resident, cold)
    if rest and point.persistent and point.splits > 1:
        cycles += ceil(rest * point.splits / units) / point.splits * cycles_of(1, cold)
    elif rest:
        cycles += cycles_of(ceil(rest / units), cold)
    memory_ns = product.footprint_bytes / _MEMORY / min(1.0, programs / units)
    total = max(cycles / _CLOCK, memory_ns) + 0.1 * memory_ns + _LAUNCH_NS
    return (total + _extra_kernels_ns(product, point, tiles, units)) * (
        1.0 + _tie_breaker(product, point, cold)
    )


def thin_ns(product: MatrixProduct, device: Device, point: ThinConfig) -> float:
    """Estimated time of a thin product.

    Wide blocks read fastest if there are enough programs: about eight on each unit.
    """
    programs = ceil(product.n / point.tile_n) * point.splits * product.batch
    block = point.tile_n * point.tile_k * product.element_bytes
    resident = min(32 // point.warps, (160 << 10) // (block * point.stages))
    flying = min(programs / device.units, resident) * block * (point.stages - 1)
    memory_ns = product.footprint_bytes / _MEMORY / min(1.0, flying / 64e3)
    narrow = 1.0 + 6 / point.tile_n if not product.settings.tb else 1.0 + 6 / point.tile_k
    odd = 0.01 * abs(block - 8192) / 8192 + 0.01 * abs(point.stages - 4)
    odd += 0.05 * (point.splits > 4)
    return (memory_ns * narrow + _LAUNCH_NS + _JOIN_NS * (point.splits > 1)) * (1.0 + odd)


def _extra_kernels_ns(product: MatrixProduct, point: TiledConfig, tiles: int, units: int) -> float:
    """Time of the kernels before and after the product."""
    total = 0.0
    if point.is_shared:
        parts = 8 * point.splits * product.m * product.n * product.batch
        total += _JOIN_NS + parts / _MEMORY
    elif point.splits > 1:
        parts = 8 * point.splits * point.tile_m * point.tile_n * (tiles % units)
        total += _REST_NS + parts / _MEMORY
    lines = 128 if point.widen else 16
    odd = [one for one in (product.a, product.b) if not product.row_is_aligned(one, lines)]
    if odd and point.descriptors:
        copied = sum(one.size for one in odd) * product.element_bytes
        total += _WIDEN_NS + 2 * copied / _COPY
    return total


def _resident_programs(point: TiledConfig, limits: GpuLimits, shared_bytes: int) -> int:
    """Number of programs that run on a unit at the same time."""
    threads = limits.warp * point.warps
    registers = point.tile_m * point.tile_n // threads + 48
    most = min(
        limits.sm_shared_bytes // (shared_bytes + 1024),
        limits.registers // (threads * registers),
        limits.threads // threads,
    )
    return max(1, most)


def _step_cycles(
    product: MatrixProduct, point: TiledConfig, limits: GpuLimits, busy: int, cold: bool
) -> float:
    rate = _RATES.get(limits.arch, 512) * 2 / product.element_bytes
    if product.dtype == "f32":
        rate = rate / 3 if point.thirds else 96
    rows, columns = (point.tile_n, point.tile_m) if point.swap else (point.tile_m, point.tile_n)
    if limits.wgmma and rows >= 64:
        multiply = rows * columns * point.tile_k / rate * (1.0 + 24 / columns)
        # Four warps that multiply 128 rows leave the matrix units no second product to overlap.
        multiply *= 1.08 if rows // 64 > point.warps // 4 and columns > 128 else 1.0
    else:
        multiply = max(rows, 16) * columns * point.tile_k / rate * 2
    each = 0.0
    for tensor, side in ((product.a, point.tile_m), (product.b, point.tile_n)):
        speed = _row_speed(product, point, tensor)
        each += side * point.tile_k * product.element_bytes / speed
    wait = _LATENCY * (1.0 if cold else 0.6) / (point.stages - 1)
    return max(busy * multiply, busy * each / _CACHE, wait)


def _row_speed(product: MatrixProduct, point: TiledConfig, tensor: Tensor) -> float:
    """The speed of reading an operand's rows, relative to whole cache lines."""
    if not point.descriptors and tensor.shape[-1] % 16:
        return _ELEMENTWISE
    copied = point.widen or not point.descriptors or not product.row_is_aligned(tensor)
    return 1.0 if copied or product.row_is_aligned(tensor, 128) else _WITHIN_LINES


def _tie_breaker(product: MatrixProduct, point: TiledConfig, few: bool) -> float:
    """A tie-breaker between similar configs: usual values come first."""
    flat = point.walk == "flat"
    usual = 0.004 * (point.group != (4 if flat else 8))
    usual += 0.06 * (point.persistent and few) + 0.15 * (point.tile_n < 64 and product.m <= 64)
    usual += 0.08 * (point.warps == 8 and point.tile_m * point.tile_n < 128 * 128)
    usual += 0.004 * (point.pieces != (2 if flat and point.tile_n == 256 else 1))
    usual += 0.004 * (point.swap != (product.m <= 32)) if product.m <= 64 else 0.0
    usual += 0.01 * (product.m <= 64 and point.tile_k * product.element_bytes < 256)
    usual += 0.03 * (not point.descriptors) + 0.002 * abs(point.stages - 4)
    return usual + 0.003 * (point.tile_m > point.tile_n and product.m > 64)
