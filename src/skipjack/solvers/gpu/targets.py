"""Which GPUs Triton can build for, and how it calls them."""

from __future__ import annotations

import re
from typing import NamedTuple

from skipjack.errors import UsageError

_LEAST_SM = 75
_CDNA = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
_NVIDIA = re.compile(r"sm_(\d{2,3})a?")
_AMD = re.compile(r"gfx(\d+)([0-9a-f]{2})")
_RDNA = range(10, 13)
"""Generations of AMD's consumer cards, whose warps have 32 threads."""


class Target(NamedTuple):
    """In the order in which Triton's ``GPUTarget`` takes them."""

    backend: str
    arch: int | str
    warp: int

    @property
    def extension(self) -> str:
        """Of a file with machine code for it."""
        return "cubin" if self.backend == "cuda" else "hsaco"


def cannot_build(arch: str) -> str:
    """Why there are no Triton kernels for an architecture; empty if there can be."""
    arch = _plain(arch)
    if nvidia := _NVIDIA.fullmatch(arch):
        if int(nvidia[1]) >= _LEAST_SM:
            return ""
        return f"Triton builds for sm_{_LEAST_SM} and later, not for {arch}"
    amd = _AMD.fullmatch(arch)
    if amd and (arch in _CDNA or int(amd[1]) in _RDNA):
        return ""
    if amd:
        return f"Triton builds for {', '.join(_CDNA)}, gfx10, gfx11 and gfx12, not for {arch}"
    return f"{arch!r} is no GPU's architecture, as sm_90 or gfx942"


def target_of(arch: str) -> Target:
    """``sm_90`` and ``gfx942`` as Triton wants them; `UsageError` for what it cannot build."""
    if reason := cannot_build(arch):
        raise UsageError(reason)
    arch = _plain(arch)
    if nvidia := _NVIDIA.fullmatch(arch):
        return Target("cuda", int(nvidia[1]), 32)
    return Target("hip", arch, 64 if arch in _CDNA else 32)


def _plain(arch: str) -> str:
    """Without the modes that AMD's driver appends, as in ``gfx90a:sramecc+:xnack-``."""
    return arch.partition(":")[0]
