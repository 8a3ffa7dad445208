"""Passing exactly one GPU to a container, by vendor and by container engine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import HipDriver, find_gpu, find_gpus, read_nodes

KFD = "/dev/kfd"


@dataclass(frozen=True, slots=True)
class GpuRef:
    """A GPU of this machine or another one."""

    driver: str
    """``cuda`` or ``hip``."""
    index: int
    """Its number in the vendor's tools."""
    uuid: str = ""
    """Its unique id, without ``GPU-``; numbers differ between tools."""
    render_node: str = ""
    """For AMD, its device file, such as ``/dev/dri/renderD128``."""
    groups: tuple[str, ...] = ("video", "render")
    """For AMD, groups that may open the device files: numbers of the machine, or names."""

    @property
    def inside(self) -> str:
        """Its name in a container, where it is the only GPU."""
        return f"{self.driver}:0"


def gpu_here(name: str) -> GpuRef | None:
    """The GPU of this machine with a name such as ``hip:1``; None if its driver is a plug-in,
    which needs no device in the container.
    """
    driver, index, device = find_gpu(name)
    if driver.name == "cuda":
        return GpuRef("cuda", index, device.serial)
    if driver.name == "hip":
        node = _render_node(driver.bus(index)) if isinstance(driver, HipDriver) else ""
        if not node:
            raise SkipjackError(_nodeless(name))
        return GpuRef("hip", index, device.serial, node, _owners((KFD, node)))
    return None


def gpus_here() -> list[GpuRef]:
    """All GPUs of this machine that can be passed to a container, in the drivers' order."""
    found = (gpu_here(f"{driver.name}:{index}") for driver, index, _ in find_gpus())
    return [one for one in found if one is not None]


def _render_node(bus: str) -> str:
    return next((node.render_node for node in read_nodes() if node.bus == bus), "")


def _nodeless(name: str) -> str:
    return (
        f"{name} cannot be passed to a container: its /dev/dri/renderD* is unknown; check that "
        "amdgpu is loaded and /sys/class/kfd is readable"
    )


def _owners(devices: Sequence[str]) -> tuple[str, ...]:
    """Group ids of device files: names may have other ids in an image."""
    found: dict[str, None] = {}
    for device in devices:
        with contextlib.suppress(OSError):
            found[str(Path(device).stat().st_gid)] = None
    return tuple(found) or ("video", "render")


def pass_through(engine: str, gpu: GpuRef, *, rootless: bool = False) -> list[str]:
    """Options of ``run`` that pass only this GPU to a container."""
    if gpu.driver == "cuda":
        which = f"GPU-{gpu.uuid}" if gpu.uuid else str(gpu.index)
        device = (
            ["--device", f"nvidia.com/gpu={which}"]
            if engine == "podman"
            else ["--gpus", f"device={which}"]
        )
        return [*device, "--env", "CUDA_VISIBLE_DEVICES=0"]
    if gpu.driver != "hip":
        raise UsageError(
            f"a GPU of {gpu.driver} cannot be passed to a container; only cuda and hip can"
        )
    if not gpu.render_node:
        raise SkipjackError(_nodeless(f"{gpu.driver}:{gpu.index}"))
    if engine == "podman" and rootless:
        # Rootless podman can keep the groups of the user, and add no others.
        groups = ["--group-add", "keep-groups"]
    else:
        groups = [word for group in gpu.groups for word in ("--group-add", group)]
    return [
        *("--device", KFD, "--device", gpu.render_node),
        *groups,
        # ROCm's runtime makes system calls that the default filter refuses.
        *("--security-opt", "seccomp=unconfined"),
        *("--env", "ROCR_VISIBLE_DEVICES=0", "--env", "HIP_VISIBLE_DEVICES=0"),
    ]
