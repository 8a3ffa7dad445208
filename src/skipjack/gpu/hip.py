"""AMD's GPUs, through HIP's library and Linux's own list of them (KFD)."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core import Device
from skipjack.gpu.driver import GpuError, LaunchShape
from skipjack.gpu.library import INT, POINTER, UINT, Library
from skipjack.gpu.stream import Arguments, StreamGpu

# AMD's GPUs as Linux lists them in sysfs, read without any library.
#
# HIP's device properties have another layout in each major version; the kernel's list does not.

KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU in the list."""

    arch: str
    units: int
    shared_bytes: int
    l2_bytes: int
    bus: str
    """Its PCI address, as ``0000:c1:00.0``."""
    render_node: str = ""
    """Its device file, as ``/dev/dri/renderD128``; empty if the list does not have it."""


def read_nodes(folder: Path = KFD_NODES) -> list[KfdNode]:
    """All GPUs in the kernel's order; the CPUs in the list are left out."""
    if not folder.is_dir():
        return []
    found = []
    for place in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)):
        values = _values(place / "properties")
        if values.get("simd_count") and values.get("gfx_target_version"):
            found.append(_node(values, place))
    return found


def arch_of(version: int) -> str:
    """Convert ``90402`` to ``gfx942``; the last two parts are hexadecimal digits in the name."""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _node(values: dict[str, int], place: Path) -> KfdNode:
    location = values.get("location_id", 0)
    bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return KfdNode(
        arch_of(values["gfx_target_version"]),
        values["simd_count"] // max(1, values.get("simd_per_cu", 4)),
        values.get("lds_size_in_kb", 64) << 10,
        _l2_bytes(place / "caches"),
        f"{values.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}",
        f"/dev/dri/renderD{minor}" if (minor := values.get("drm_render_minor")) else "",
    )


def _l2_bytes(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    caches = [_values(place / "properties") for place in folder.iterdir()]
    sizes = [cache.get("size", 0) << 10 for cache in caches if cache.get("level") == 2]
    return max(sizes, default=0)


def _values(path: Path) -> dict[str, int]:
    """The name and number in each line; empty if the file cannot be read."""
    try:
        pairs = [line.split() for line in path.read_text().splitlines()]
    except OSError as error:
        log.debug("cannot read %s: %s", path, error)
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


# AMD's GPUs, through HIP's library.
#
# Written from HIP's headers and tested with stand-ins; it was not yet run on hardware.

LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
SYMBOLS = {
    "start": "hipInit",
    "version": "hipDriverGetVersion",
    "count": "hipGetDeviceCount",
    "device": "hipDeviceGet",
    "device name": "hipDeviceGetName",
    "device uuid": "hipDeviceGetUuid",
    "device memory": "hipDeviceTotalMem",
    "device bus": "hipDeviceGetPCIBusId",
    "current device": "hipGetDevice",
    "choose device": "hipSetDevice",
    "create stream": "hipStreamCreateWithFlags",
    "wait": "hipStreamSynchronize",
    "wait for all": "hipDeviceSynchronize",
    "destroy stream": "hipStreamDestroy",
    "allocate": "hipMalloc",
    "free": "hipFree",
    "upload": "hipMemcpyHtoDAsync",
    "download": "hipMemcpyDtoHAsync",
    "copy": "hipMemcpyDtoDAsync",
    "fill": "hipMemsetD8Async",
    "memory": "hipMemGetInfo",
    "load": "hipModuleLoadData",
    "unload": "hipModuleUnload",
    "function": "hipModuleGetFunction",
    "function attribute": "hipFuncGetAttribute",
    "launch": "hipModuleLaunchKernel",
    "launch cooperative": "hipModuleLaunchCooperativeKernel",
    "create event": "hipEventCreateWithFlags",
    "record event": "hipEventRecord",
    "wait for event": "hipEventSynchronize",
    "elapsed": "hipEventElapsedTime",
    "destroy event": "hipEventDestroy",
    "begin capture": "hipStreamBeginCapture",
    "exchange capture mode": "hipThreadExchangeStreamCaptureMode",
    "end capture": "hipStreamEndCapture",
    "instantiate": "hipGraphInstantiateWithFlags",
    "run graph": "hipGraphLaunch",
    "destroy running graph": "hipGraphExecDestroy",
    "destroy graph": "hipGraphDestroy",
    "error name": "hipDrvGetErrorName",
    "error text": "hipDrvGetErrorString",
}
_LAUNCH = (POINTER, *(UINT,) * 7, POINTER, POINTER)
_OWN = {
    "current device": (POINTER,),
    "choose device": (INT,),
    "device bus": (POINTER, INT, INT),
    "launch": (*_LAUNCH, POINTER),
    "launch cooperative": _LAUNCH,
}


class HipGpu(StreamGpu):
    """An AMD GPU."""

    def _enter(self) -> int | None:
        before = self._library.number("current device")
        if before == self.index:
            return None
        self._library("choose device", self.index)
        return before

    def _leave(self, before: int) -> None:
        with suppress(GpuError):  # after a fault, which is the error to report
            self._library("choose device", before)

    def _allow_shared(self, function: int, shared_bytes: int) -> None:
        """Nothing to do: every function may use all shared memory."""

    def _launch(
        self, function: int, shape: LaunchShape, arguments: Arguments, stream: int
    ) -> tuple[str, tuple[Any, ...]]:
        """HIP has neither clusters nor dependent launches."""
        sizes = (*shape.grid, shape.threads, 1, 1, shape.shared_bytes)
        given = (function, *sizes, stream, arguments.addresses)
        return ("launch cooperative", given) if shape.cooperative else ("launch", (*given, None))

    def tensor_map(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: dict[str, Any],
    ) -> bytes:
        """Not supported: kernels for these GPUs take addresses and sizes, not descriptors."""
        raise GpuError(f"{self.device.arch} has no copy engine that takes descriptors")


class HipDriver:
    """Implements `skipjack.gpu.driver.Driver`."""

    name = "hip"

    def __init__(self, handle: Any, nodes: Path = KFD_NODES) -> None:
        """`handle` is the library, which is initialized; that fails if there is no GPU."""
        self._library = Library(handle, "HIP", SYMBOLS, _OWN)
        self._nodes = nodes
        self._library("start", 0)

    def version(self) -> tuple[int, int]:
        """The version of HIP."""
        number = self._library.number("version")
        return number // 10_000_000, number // 100_000 % 100

    def devices(self) -> Sequence[Device]:
        """All GPUs in the driver's order."""
        return [self._describe(index) for index in range(self._library.number("count"))]

    def open(self, index: int) -> HipGpu:
        """Open a GPU for launches."""
        return HipGpu(self._library, self._describe(index), index)

    def _describe(self, index: int) -> Device:
        ordinal = self._library.number("device", index)
        bus = self.bus(index)
        node = next((node for node in read_nodes(self._nodes) if node.bus == bus), None)
        if node is None:
            raise GpuError(f"HIP's GPU {index} at {bus} is not listed in {self._nodes}")
        return Device(
            self.name,
            node.arch,
            node.units,
            self._library.device_name(ordinal),
            caches=(("shared", node.shared_bytes), ("L2", node.l2_bytes)),
            memory_bytes=self._library.size("device memory", ordinal),
            serial=self._library.device_serial(ordinal),
        )

    def bus(self, index: int) -> str:
        """The PCI address of a GPU, as ``0000:c1:00.0``."""
        text = ctypes.create_string_buffer(32)
        self._library("device bus", text, len(text), index)
        return text.value.decode(errors="replace").lower()
