"""One GPU and no other for a container: what to pass through, by vendor and by engine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu.hip import HipDriver
from skipjack.gpu.kfd import read_nodes
from skipjack.gpu.opening import find_gpu, find_gpus

KFD = "/dev/kfd"


@dataclass(frozen=True, slots=True)
class GpuRef:
    """A GPU of a machine, here or elsewhere."""

    driver: str
    """``cuda`` or ``hip``."""
    index: int
    """Its number, as the vendor's tools count."""
    uuid: str = ""
    """What tells it from all others, without ``GPU-``; numbers depend on who counts."""
    render_node: str = ""
    """Of AMD's, as ``/dev/dri/renderD128``: its number says nothing about others' cards."""
    groups: tuple[str, ...] = ("video", "render")
    """Who may open the devices of AMD's: names in the image, or better numbers of the machine."""

    @property
    def inside(self) -> str:
        """What it is called in a container that has no other: the first."""
        return f"{self.driver}:0"


def gpu_here(name: str) -> GpuRef | None:
    """The GPU of this machine that is opened as ``hip:1``; None if no container could be given it.

    That is so for drivers of plug-ins, which need no device.
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
    """All GPUs of this machine that a container can be given, in the drivers' order."""
    found = (gpu_here(f"{driver.name}:{index}") for driver, index, _ in find_gpus())
    return [one for one in found if one is not None]


def _render_node(bus: str) -> str:
    return next((node.render_node for node in read_nodes() if node.bus == bus), "")


def _nodeless(name: str) -> str:
    return (
        f"no container can be given {name}: the kernel does not say which /dev/dri/renderD* it is; "
        "is amdgpu loaded, and /sys/class/kfd to be read here?"
    )


def _owners(devices: Sequence[str]) -> tuple[str, ...]:
    """Groups of device files by number: an image may have other numbers for the same names."""
    found: dict[str, None] = {}
    for device in devices:
        with contextlib.suppress(OSError):
            found[str(Path(device).stat().st_gid)] = None
    return tuple(found) or ("video", "render")


def pass_through(engine: str, gpu: GpuRef, *, rootless: bool = False) -> list[str]:
    """Options of ``run`` that give a container this GPU alone."""
    if gpu.driver == "cuda":
        which = f"GPU-{gpu.uuid}" if gpu.uuid else str(gpu.index)
        device = (
            ["--device", f"nvidia.com/gpu={which}"]
            if engine == "podman"
            else ["--gpus", f"device={which}"]
        )
        return [*device, "--env", "CUDA_VISIBLE_DEVICES=0"]
    if gpu.driver != "hip":
        raise UsageError(f"no container can be given a GPU of {gpu.driver}: only cuda and hip")
    if not gpu.render_node:
        raise SkipjackError(_nodeless(f"{gpu.driver}:{gpu.index}"))
    if engine == "podman" and rootless:
        # Those who are in the groups of the devices stay in them; no others can be added.
        groups = ["--group-add", "keep-groups"]
    else:
        groups = [word for group in gpu.groups for word in ("--group-add", group)]
    return [
        *("--device", KFD, "--device", gpu.render_node),
        *groups,
        # ROCm's runtime makes calls that the usual filter refuses.
        *("--security-opt", "seccomp=unconfined"),
        *("--env", "ROCR_VISIBLE_DEVICES=0", "--env", "HIP_VISIBLE_DEVICES=0"),
    ]
