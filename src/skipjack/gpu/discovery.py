"""Finding the drivers and GPUs of this machine, and opening a GPU."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from skipjack.core import Device
from skipjack.gpu import cuda, hip
from skipjack.gpu.driver import Driver, Gpu, GpuError

log = logging.getLogger(__name__)

FoundGpu = tuple[Driver, int, Device]
"""A driver, the index of one of its GPUs, and the device."""

_registered: dict[str, Driver] = {}


def register_driver(driver: Driver) -> None:
    """Add a driver, or replace the one of the same name: for plug-ins and fakes."""
    _registered[driver.name] = driver
    _all_gpus.cache_clear()


@contextmanager
def only_drivers(*drivers: Driver) -> Iterator[None]:
    """Hide all other drivers within the context, so that tests do not depend on the machine."""
    before = dict(_registered), dict(_VENDORS)
    _registered.clear()
    _VENDORS.clear()
    for driver in drivers:
        register_driver(driver)
    _all_gpus.cache_clear()
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before[0])
        _VENDORS.update(before[1])
        _all_gpus.cache_clear()


def open_drivers() -> list[Driver]:
    """The available drivers; those without a library or a GPU are silently left out."""
    return [*_registered.values(), *(one for one in _installed() if one.name not in _registered)]


def open_driver(kind: str) -> Driver:
    """The driver for devices of a kind; `GpuError` says why there is none."""
    for driver in open_drivers():
        if driver.name == kind:
            return driver
    raise GpuError(f"there is no driver for {kind} here: {missing_driver_reason(kind)}")


def missing_driver_reason(kind: str) -> str:
    """Why there is no driver for a kind of device; empty if there is one."""
    if kind in _registered:
        return ""
    if kind not in _VENDORS:
        return "no such driver is known"
    found = _load_driver(kind)
    return found if isinstance(found, str) else ""


def driver_release(kind: str) -> str:
    """Name and version of the driver for a kind of device, as ``cuda 12.8``; empty without one."""
    for driver in open_drivers():
        if driver.name == kind:
            with suppress(GpuError):
                return f"{driver.name} {'.'.join(map(str, driver.version()))}"
    return ""


def find_gpus() -> list[FoundGpu]:
    """All GPUs of this machine; looked up once in a process."""
    return list(_all_gpus())


def local_gpus() -> tuple[FoundGpu, ...]:
    """Like `find_gpus`; returns the same object until a driver is added or removed."""
    return _all_gpus()


def gpu_name(device: Device) -> str:
    """The name by which a local GPU is opened, as ``cuda:0``: itself, or else the first alike."""
    alike = ""
    for driver, index, one in find_gpus():
        if one == device:
            return f"{driver.name}:{index}"
        if one.name == device.name and not alike:
            alike = f"{driver.name}:{index}"
    return alike or gpu_name(find_gpu(device.name)[2])


def find_gpu(which: str | int) -> FoundGpu:
    """A local GPU by its number, as ``cuda:0``, or as ``sm_90/132`` (the first such)."""
    requested = str(which)
    found = find_gpus()
    for at, (driver, index, device) in enumerate(found):
        if requested in (f"{driver.name}:{index}", device.name, device.serial) or requested == str(
            at
        ):
            return driver, index, device
    if not found:
        reasons = " and ".join(dict.fromkeys(filter(None, map(missing_driver_reason, _VENDORS))))
        raise GpuError(f"there is no GPU {requested} here: {reasons or 'no driver has one'}")
    here = ", ".join(f"{driver.name}:{index} ({one.name})" for driver, index, one in found)
    raise GpuError(f"there is no GPU {requested} here, only {here}")


def open_gpu(which: str | int) -> Gpu:
    """Open a GPU for launches; `which` is as for `find_gpu`."""
    driver, index, _ = find_gpu(which)
    return driver.open(index)


@cache
def _all_gpus() -> tuple[FoundGpu, ...]:
    found: list[FoundGpu] = []
    for driver in open_drivers():
        try:
            found += [(driver, index, device) for index, device in enumerate(driver.devices())]
        except GpuError as error:
            log.warning("the GPUs of %s cannot be listed: %s", driver.name, error)
    return tuple(found)


def _installed() -> Sequence[Driver]:
    return [one for one in map(_load_driver, _VENDORS) if not isinstance(one, str)]


_VENDORS: dict[str, tuple[Sequence[str], Callable[[Any], Driver]]] = {
    "cuda": ((cuda.LIBRARY,), cuda.CudaDriver),
    "hip": (hip.LIBRARIES, hip.HipDriver),
}


@cache
def _load_driver(kind: str) -> Driver | str:
    """The driver, or the reason why there is none."""
    libraries, make = _VENDORS[kind]
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
