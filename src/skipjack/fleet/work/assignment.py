"""Where on this machine a task is timed: on cores, or on a GPU with any core beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.errors import WorkerError
from skipjack.fleet.host import detect_host
from skipjack.gpu.opening import Found, find_gpus


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """A device as it is here, and what of it is held while something is timed."""

    device: Device
    cores: tuple[int, ...]
    """Of the process that runs kernels, or starts them."""
    units: tuple[int | str, ...]
    """Locked: cores, or a GPU by what tells it from all others."""
    gpu: str = ""
    """As ``cuda:0``."""


def assign_cores(device: Device, cores: tuple[int, ...]) -> DeviceAssignment:
    """The CPU as it is here; code that cannot run on it is refused."""
    here = {one.name: one for one in detect_host().devices}.get(device.name)
    if here is None:
        raise WorkerError(f"this machine has no {device.name}")
    if device.compat_key not in here.loadable:
        raise WorkerError(
            f"this {device.name} ({here.compat_key}) lacks what the code was built for: "
            f"{device.compat_key}"
        )
    return DeviceAssignment(here, cores, cores)


def assign_gpu(device: Device, wish: str, cores: tuple[int, ...]) -> DeviceAssignment:
    """The GPU that is wished for, if it is such a device; without a wish the first that is."""
    found = find_gpus()
    wished = _wished(found, wish)
    for driver, index, here in wished:
        if (here.kind, here.name) == (device.kind, device.name):
            unit = here.serial or str(index)
            return DeviceAssignment(here, cores, (unit,), f"{driver.name}:{index}")
    names = ", ".join(dict.fromkeys(here.name for _, _, here in wished))
    if wish and not wished:
        have = ", ".join(f"{driver.name}:{index}" for driver, index, _ in found)
        raise WorkerError(f"this machine has no GPU {wish}: here is {have or 'no GPU'}")
    place = f"GPU {wish}" if wish and len(wished) == 1 else "this machine"
    raise WorkerError(f"{place} has no {device.name}: here is {names or 'no GPU'}")


def _wished(found: Sequence[Found], wish: str) -> Sequence[Found]:
    """Those that a wish leaves: none if it is ``cuda:3`` and that is not here.

    Other words may be those of a scheduler: it hides the other GPUs from a worker, which then finds
    the one that it was given under another number.
    """
    plain = wish.removeprefix("GPU-")
    named = [
        one for one in found if wish == f"{one[0].name}:{one[1]}" or plain == one[2].serial != ""
    ]
    if named:
        return named
    if wish.isdigit() and int(wish) < len(found):
        return [found[int(wish)]]
    return [] if ":" in wish else found
