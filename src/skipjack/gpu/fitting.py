"""Whether an artifact can run on a GPU, said before anything is loaded."""

from __future__ import annotations

import re

from skipjack.core.device import Device
from skipjack.gpu.artifact import GpuArtifact
from skipjack.gpu.driver import GpuError

_NVIDIA = re.compile(r"sm_(\d+)(\d)([af]?)")
_OWN_INSTRUCTIONS = 9
"""From this generation on, compilers use instructions that no other chip has (``sm_90a``)."""


def fits(target: str, arch: str) -> bool:
    """Whether code for a target runs on an architecture.

    NVIDIA's older code runs on later chips of its generation (sm_80 on sm_86); everything else runs
    on exactly what it was built for.
    """
    built, here = _NVIDIA.fullmatch(target), _NVIDIA.fullmatch(arch)
    if not built or not here:
        return target == arch
    if int(built[1]) >= _OWN_INSTRUCTIONS or built[3]:
        return built.group(1, 2) == here.group(1, 2)
    return built[1] == here[1] and int(built[2]) <= int(here[2])


def check_fit(artifact: GpuArtifact, device: Device, driver: tuple[int, int]) -> None:
    """`GpuError` in one sentence if the artifact cannot run on this GPU with this driver."""
    if not fits(artifact.target, device.arch):
        raise GpuError(f"the artifact is for {artifact.target}, this GPU is {device.arch}")
    if driver < artifact.least_driver:
        need, have = (".".join(map(str, pair)) for pair in (artifact.least_driver, driver))
        vendor = "CUDA" if device.kind == "cuda" else "HIP"
        raise GpuError(
            f"the artifact needs a driver of {vendor} {need} or later, here is {have}; update it"
        )
