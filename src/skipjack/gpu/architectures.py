"""Limits of GPU architectures, and devices described by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.core import BY_NAME, Device, parse_device_name
from skipjack.errors import UsageError

# The limits of GPU architectures, which decide which configs can run at all.


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """The limits of an architecture."""

    arch: str
    kind: str
    """``cuda`` or ``hip``."""
    warp: int
    """Threads that execute in lockstep."""
    shared_bytes: int
    """Shared memory that one block can use."""
    sm_shared_bytes: int
    """Shared memory of a compute unit, for all of its blocks."""
    registers: int
    """32-bit registers of a compute unit."""
    threads: int
    """Most threads of a compute unit."""
    l2_bytes: int
    """L2 cache of most models."""
    units: int
    """Compute units of the largest common model."""
    fp8: tuple[str, ...] = ()
    """8-bit types that the matrix units support."""
    tma: bool = False
    """Whether there is a copy engine that uses descriptors (TMA)."""
    wgmma: bool = False
    """Whether matrix units read operands from shared memory for groups of four warps."""


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
"""Architectures that Triton builds for: NVIDIA's before AMD's, oldest first."""


# GPUs described by name only, which is enough to build for them.

_GPU = re.compile(r"sm_\d+\w?|gfx\d\w+")
_MOST_UNITS = 1024


def is_gpu_arch(arch: str) -> bool:
    """Whether a name has the form of an NVIDIA or AMD architecture: ``sm_90``, ``gfx942``."""
    return _GPU.fullmatch(arch) is not None


def kind_of(arch: str) -> str:
    """``cuda`` or ``hip``, by the form of the architecture's name."""
    return "cuda" if arch.startswith("sm_") else "hip"


def describe_gpu(text: str) -> Device:
    """The GPU that ``arch/units`` names, with the memory sizes of most models."""
    arch, units = parse_device_name(text)
    limits = KNOWN.get(arch)
    if limits is None:
        raise UsageError(refusal_of_arch(arch))
    if units > _MOST_UNITS:
        raise UsageError(f"no {arch} has {units} compute units; a large one has {limits.units}")
    return Device(
        limits.kind,
        arch,
        units,
        f"{arch}{BY_NAME}",
        caches=(("shared", limits.shared_bytes), ("L2", limits.l2_bytes)),
    )


def named_gpu(text: str) -> Device:
    """A GPU without known limits, for programs that compile for it themselves."""
    arch, units = parse_device_name(text)
    return Device(kind_of(arch), arch, units, f"{arch}{BY_NAME}")


def limits_of(device: Device) -> GpuLimits:
    """The limits of a GPU's architecture; `UsageError` if they are not known."""
    limits = KNOWN.get(device.arch)
    if limits is None:
        raise UsageError(refusal_of_arch(device.arch))
    return limits


def refusal_of_arch(arch: str) -> str:
    """A sentence that says why nothing is built for an architecture."""
    ours = kind_of(arch)
    alike = ", ".join(limits.arch for limits in KNOWN.values() if limits.kind == ours)
    vendor = "NVIDIA's" if ours == "cuda" else "AMD's"
    return f"Triton cannot build for {arch}: of {vendor} GPUs it builds for {alike}"
