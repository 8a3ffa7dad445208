"""AMD's GPUs, through HIP's library.

Built from HIP's headers and tested with stand-ins; it has never run on hardware so far.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from skipjack.core.device import Device
from skipjack.gpu.driver import GpuError, LaunchShape
from skipjack.gpu.kfd import NODES, read_nodes
from skipjack.gpu.library import INT, POINTER, UINT, Library
from skipjack.gpu.stream import Arguments, StreamGpu

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
    """A GPU of AMD's."""

    def _enter(self) -> int | None:
        before = self._library.number("current device")
        if before == self.index:
            return None
        self._library("choose device", self.index)
        return before

    def _leave(self, before: int) -> None:
        with suppress(GpuError):  # after a fault: that is the error to tell
            self._library("choose device", before)

    def _allow_shared(self, function: int, shared_bytes: int) -> None:
        """Every function may use as much as there is."""

    def _launch(
        self, function: int, shape: LaunchShape, arguments: Arguments, stream: int
    ) -> tuple[str, tuple[Any, ...]]:
        """There are neither clusters nor launches that overlap."""
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
        """Refused: kernels for these GPUs take descriptors apart into addresses and numbers."""
        raise GpuError(f"{self.device.arch} has no copy engine that takes descriptors")


class HipDriver:
    """See `skipjack.gpu.driver.Driver`."""

    name = "hip"

    def __init__(self, handle: Any, nodes: Path = NODES) -> None:
        """`handle` is the library; it is started, which fails where there is no GPU."""
        self._library = Library(handle, "HIP", SYMBOLS, _OWN)
        self._nodes = nodes
        self._library("start", 0)

    def version(self) -> tuple[int, int]:
        """Of HIP."""
        number = self._library.number("version")
        return number // 10_000_000, number // 100_000 % 100

    def devices(self) -> Sequence[Device]:
        """All GPUs in the driver's order."""
        return [self._describe(index) for index in range(self._library.number("count"))]

    def open(self, index: int) -> HipGpu:
        """Make ready for launches."""
        return HipGpu(self._library, self._describe(index), index)

    def _describe(self, index: int) -> Device:
        ordinal = self._library.number("device", index)
        bus = self.bus(index)
        node = next((node for node in read_nodes(self._nodes) if node.bus == bus), None)
        if node is None:
            raise GpuError(f"HIP's GPU {index} at {bus} is not among those in {self._nodes}")
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
        """Where a GPU is on the PCI bus, as ``0000:c1:00.0``."""
        text = ctypes.create_string_buffer(32)
        self._library("device bus", text, len(text), index)
        return text.value.decode(errors="replace").lower()
