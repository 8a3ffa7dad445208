"""A GPU that is not here, described by its name alone: enough to build for it."""

from __future__ import annotations

import re

from skipjack.core.device import BY_NAME, Device, parse_device_name
from skipjack.errors import UsageError
from skipjack.gpu.architectures import KNOWN, GpuLimits

_GPU = re.compile(r"sm_\d+\w?|gfx\d\w+")
_MOST_UNITS = 1024


def names_gpu(arch: str) -> bool:
    """Whether this is how NVIDIA's and AMD's GPUs are named: ``sm_90``, ``gfx942``."""
    return _GPU.fullmatch(arch) is not None


def kind_of(arch: str) -> str:
    """``cuda`` or ``hip``, by how a GPU is named."""
    return "cuda" if arch.startswith("sm_") else "hip"


def describe_gpu(text: str) -> Device:
    """The GPU that ``arch/units`` names, with the memories that most models of it have."""
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
    """A GPU of which its name is all that is known: for programs that compile for it themselves."""
    arch, units = parse_device_name(text)
    return Device(kind_of(arch), arch, units, f"{arch}{BY_NAME}")


def limits_of(device: Device) -> GpuLimits:
    """What is known of a GPU's architecture; `UsageError` if nothing is."""
    limits = KNOWN.get(device.arch)
    if limits is None:
        raise UsageError(refusal_of_arch(device.arch))
    return limits


def refusal_of_arch(arch: str) -> str:
    """One sentence on why nothing is built for an architecture."""
    ours = kind_of(arch)
    alike = ", ".join(limits.arch for limits in KNOWN.values() if limits.kind == ours)
    vendor = "NVIDIA's" if ours == "cuda" else "AMD's"
    return f"Triton cannot build for {arch}: of {vendor} GPUs it builds for {alike}"
