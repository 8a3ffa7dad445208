"""What is known of GPUs by their names: limits that decide which configs can run at all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """Of an architecture."""

    arch: str
    kind: str
    """``cuda`` or ``hip``."""
    warp: int
    """Threads that run in step."""
    shared_bytes: int
    """Most shared memory of one block."""
    sm_shared_bytes: int
    """Shared memory of a compute unit, for all its blocks."""
    registers: int
    """32-bit registers of a compute unit."""
    threads: int
    """Most threads of a compute unit."""
    l2_bytes: int
    """As most models have it."""
    units: int
    """As the largest common model has them."""
    fp8: tuple[str, ...] = ()
    """Eight-bit types that the matrix units take."""
    tma: bool = False
    """Whether there is a copy engine that descriptors are for."""
    wgmma: bool = False
    """Whether matrix units read operands from shared memory, for groups of four warps."""


_KIB, _MIB = 1 << 10, 1 << 20
_FP8 = ("f8e4m3", "f8e5m2")
_TABLE = (
    GpuLimits("sm_75", "cuda", 32, 64 * _KIB, 64 * _KIB, 65536, 1024, 4 * _MIB, 40),
    GpuLimits("sm_80", "cuda", 32, 163 * _KIB, 164 * _KIB, 65536, 2048, 40 * _MIB, 108),
    GpuLimits("sm_86", "cuda", 32, 99 * _KIB, 100 * _KIB, 65536, 1536, 6 * _MIB, 84),
    GpuLimits("sm_89", "cuda", 32, 99 * _KIB, 100 * _KIB, 65536, 1536, 72 * _MIB, 142, _FP8),
    GpuLimits(
        "sm_90", "cuda", 32, 227 * _KIB, 228 * _KIB, 65536, 2048, 50 * _MIB, 132, _FP8, True, True
    ),
    GpuLimits(
        "sm_100", "cuda", 32, 227 * _KIB, 228 * _KIB, 65536, 2048, 126 * _MIB, 148, _FP8, True
    ),
    GpuLimits("sm_120", "cuda", 32, 99 * _KIB, 100 * _KIB, 65536, 1536, 96 * _MIB, 170, _FP8, True),
    GpuLimits("gfx908", "hip", 64, 64 * _KIB, 64 * _KIB, 131072, 2560, 8 * _MIB, 120),
    GpuLimits("gfx90a", "hip", 64, 64 * _KIB, 64 * _KIB, 131072, 2048, 8 * _MIB, 104),
    GpuLimits("gfx942", "hip", 64, 64 * _KIB, 64 * _KIB, 131072, 2048, 4 * _MIB, 304),
    GpuLimits("gfx950", "hip", 64, 160 * _KIB, 160 * _KIB, 131072, 2048, 4 * _MIB, 256, _FP8),
    GpuLimits("gfx1100", "hip", 32, 64 * _KIB, 64 * _KIB, 98304, 1024, 6 * _MIB, 96),
    GpuLimits("gfx1101", "hip", 32, 64 * _KIB, 64 * _KIB, 98304, 1024, 4 * _MIB, 60),
    GpuLimits("gfx1200", "hip", 32, 64 * _KIB, 64 * _KIB, 98304, 1024, 4 * _MIB, 32, _FP8),
    GpuLimits("gfx1201", "hip", 32, 64 * _KIB, 64 * _KIB, 98304, 1024, 8 * _MIB, 64, _FP8),
)
KNOWN: dict[str, GpuLimits] = {limits.arch: limits for limits in _TABLE}
"""What Triton builds for, oldest first, NVIDIA's before AMD's."""
