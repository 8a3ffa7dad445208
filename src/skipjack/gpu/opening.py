"""Which drivers and GPUs are here, and opening one of them."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from skipjack.core.device import Device
from skipjack.gpu import cuda, hip
from skipjack.gpu.driver import Driver, Gpu, GpuError

log = logging.getLogger(__name__)

Found = tuple[Driver, int, Device]
"""A driver, which one of its GPUs it is, and what that is."""

_registered: dict[str, Driver] = {}


def register_driver(driver: Driver) -> None:
    """Add a driver, in place of another of its name: how plug-ins bring fakes and other vendors."""
    _registered[driver.name] = driver
    _look.cache_clear()


@contextmanager
def only_drivers(*drivers: Driver) -> Iterator[None]:
    """Until the end of it these are all drivers there are: how tests do not depend on a machine."""
    before = dict(_registered), dict(_KINDS)
    _registered.clear()
    _KINDS.clear()
    for driver in drivers:
        register_driver(driver)
    _look.cache_clear()
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before[0])
        _KINDS.update(before[1])
        _look.cache_clear()


def open_drivers() -> list[Driver]:
    """Those that are here. A missing library or a machine without a GPU is none, quietly."""
    return [*_registered.values(), *(one for one in _installed() if one.name not in _registered)]


def open_driver(kind: str) -> Driver:
    """The driver for devices of a kind; `GpuError` says why it is not here."""
    for driver in open_drivers():
        if driver.name == kind:
            return driver
    raise GpuError(f"there is no driver for {kind} here: {why_none(kind)}")


def why_none(kind: str) -> str:
    """Why there is no driver of a kind here; empty if there is one."""
    if kind in _registered:
        return ""
    if kind not in _KINDS:
        return "no such driver is known"
    found = _attempt(kind)
    return found if isinstance(found, str) else ""


def driver_release(kind: str) -> str:
    """Name and version of the driver for devices of a kind, as ``cuda 12.8``; empty without one."""
    for driver in open_drivers():
        if driver.name == kind:
            with suppress(GpuError):
                return f"{driver.name} {'.'.join(map(str, driver.version()))}"
    return ""


def find_gpus() -> list[Found]:
    """All GPUs that are here; looked up once in a process."""
    return list(_look())


def gpus_here() -> tuple[Found, ...]:
    """The same, and the very same object until a driver is added or taken away."""
    return _look()


def gpu_name(device: Device) -> str:
    """How a GPU that is here is opened, as ``cuda:0``: this very one, or else the first alike."""
    alike = ""
    for driver, index, one in find_gpus():
        if one == device:
            return f"{driver.name}:{index}"
        if one.name == device.name and not alike:
            alike = f"{driver.name}:{index}"
    return alike or gpu_name(find_gpu(device.name)[2])


def find_gpu(which: str | int) -> Found:
    """One of those here: by its number, as ``cuda:0``, or as ``sm_90/132`` (the first such)."""
    wanted = str(which)
    found = find_gpus()
    for at, (driver, index, device) in enumerate(found):
        if wanted in (f"{driver.name}:{index}", device.name, device.serial) or wanted == str(at):
            return driver, index, device
    if not found:
        reasons = " and ".join(dict.fromkeys(filter(None, map(why_none, _KINDS))))
        raise GpuError(f"there is no GPU {wanted} here: {reasons or 'no driver has one'}")
    here = ", ".join(f"{driver.name}:{index} ({one.name})" for driver, index, one in found)
    raise GpuError(f"there is no GPU {wanted} here, only {here}")


def open_gpu(which: str | int) -> Gpu:
    """Make a GPU ready for launches; `which` as `find_gpu` takes it."""
    driver, index, _ = find_gpu(which)
    return driver.open(index)


@cache
def _look() -> tuple[Found, ...]:
    found: list[Found] = []
    for driver in open_drivers():
        try:
            found += [(driver, index, device) for index, device in enumerate(driver.devices())]
        except GpuError as error:
            log.warning("the GPUs of %s cannot be listed: %s", driver.name, error)
    return tuple(found)


def _installed() -> Sequence[Driver]:
    return [one for one in map(_attempt, _KINDS) if not isinstance(one, str)]


_KINDS: dict[str, tuple[Sequence[str], Callable[[Any], Driver]]] = {
    "cuda": ((cuda.LIBRARY,), cuda.CudaDriver),
    "hip": (hip.LIBRARIES, hip.HipDriver),
}


@cache
def _attempt(kind: str) -> Driver | str:
    """The driver, or why there is none."""
    libraries, make = _KINDS[kind]
    for name in libraries:
        try:
            handle = ctypes.CDLL(name)
        except OSError:
            continue
        try:
            return make(handle)
        except GpuError as error:
            return str(error)
    return f"{libraries[0]} is not installed"
