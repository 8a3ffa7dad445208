"""How Triton calls the GPUs that it builds for; `skipjack.gpu.architectures` lists them."""

from __future__ import annotations

import re
from typing import NamedTuple

from skipjack.errors import UsageError
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.describing import names_gpu, refusal_of_arch

_NVIDIA = re.compile(r"sm_(\d+)a?")


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
    if arch in KNOWN:
        return ""
    if names_gpu(arch):
        return refusal_of_arch(arch)
    return f"{arch!r} is no GPU's architecture, as sm_90 or gfx942"


def target_of(arch: str) -> Target:
    """``sm_90`` and ``gfx942`` as Triton wants them; `UsageError` for what it cannot build."""
    if reason := cannot_build(arch):
        raise UsageError(reason)
    limits = KNOWN[_plain(arch)]
    nvidia = _NVIDIA.fullmatch(limits.arch)
    return Target(limits.kind, int(nvidia[1]) if nvidia else limits.arch, limits.warp)


def _plain(arch: str) -> str:
    """Without the modes that AMD's driver appends, as in ``gfx90a:sramecc+:xnack-``.

    Nor with the mark of NVIDIA's code that no other chip runs, as in ``sm_90a``.
    """
    name = arch.partition(":")[0]
    nvidia = _NVIDIA.fullmatch(name)
    return f"sm_{nvidia[1]}" if nvidia else name
