"""NVIDIA's GPUs, through the driver's library; neither the toolkit nor a framework is needed.

The primary context is used, so that PyTorch in the same process shares its memory. Structures and
constants are those of ``cuda.h`` in CUDA 12 and 13, which agree.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from skipjack.core import Device
from skipjack.gpu.driver import GpuError, LaunchShape
from skipjack.gpu.library import INT, POINTER, UINT, CallError, Library
from skipjack.gpu.stream import Arguments, StreamGpu

LIBRARY = "libcuda.so.1"
SYMBOLS = {
    "start": "cuInit",
    "version": "cuDriverGetVersion",
    "count": "cuDeviceGetCount",
    "device": "cuDeviceGet",
    "device name": "cuDeviceGetName",
    "device uuid": "cuDeviceGetUuid_v2",
    "device memory": "cuDeviceTotalMem_v2",
    "device attribute": "cuDeviceGetAttribute",
    "retain context": "cuDevicePrimaryCtxRetain",
    "release context": "cuDevicePrimaryCtxRelease_v2",
    "current context": "cuCtxGetCurrent",
    "enter context": "cuCtxPushCurrent_v2",
    "leave context": "cuCtxPopCurrent_v2",
    "create stream": "cuStreamCreate",
    "wait": "cuStreamSynchronize",
    "wait for all": "cuCtxSynchronize",
    "destroy stream": "cuStreamDestroy_v2",
    "allocate": "cuMemAlloc_v2",
    "free": "cuMemFree_v2",
    "upload": "cuMemcpyHtoDAsync_v2",
    "download": "cuMemcpyDtoHAsync_v2",
    "copy": "cuMemcpyDtoDAsync_v2",
    "fill": "cuMemsetD8Async",
    "memory": "cuMemGetInfo_v2",
    "load": "cuModuleLoadData",
    "unload": "cuModuleUnload",
    "function": "cuModuleGetFunction",
    "function attribute": "cuFuncGetAttribute",
    "set function attribute": "cuFuncSetAttribute",
    "prefer": "cuFuncSetCacheConfig",
    "launch": "cuLaunchKernelEx",
    "create event": "cuEventCreate",
    "record event": "cuEventRecord",
    "wait for event": "cuEventSynchronize",
    "elapsed": "cuEventElapsedTime",
    "destroy event": "cuEventDestroy_v2",
    "begin capture": "cuStreamBeginCapture_v2",
    "exchange capture mode": "cuThreadExchangeStreamCaptureMode",
    "end capture": "cuStreamEndCapture",
    "instantiate": "cuGraphInstantiateWithFlags",
    "run graph": "cuGraphLaunch",
    "destroy running graph": "cuGraphExecDestroy",
    "destroy graph": "cuGraphDestroy",
    "encode tensor map": "cuTensorMapEncodeTiled",
    "error name": "cuGetErrorName",
    "error text": "cuGetErrorString",
}
_OWN = {
    "retain context": (POINTER, INT),
    "release context": (INT,),
    "current context": (POINTER,),
    "enter context": (POINTER,),
    "leave context": (POINTER,),
    "set function attribute": (POINTER, INT, INT),
    "prefer": (POINTER, INT),
    "launch": (POINTER, POINTER, POINTER, POINTER),
    "encode tensor map": (
        *(POINTER, INT, UINT, POINTER, POINTER, POINTER, POINTER, POINTER),
        *(INT, INT, INT, INT),
    ),
}
_UNITS, _L2, _MAJOR, _MINOR, _SHARED = 16, 38, 75, 76, 97
_MAX_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
_FREE_SHARED = 48 << 10
"""Shared memory that every function may use."""
_PREFER_SHARED = 1
_PORTABLE_CLUSTER = 8
_COOPERATIVE, _CLUSTER, _CLUSTER_POLICY, _DEPENDENT = 2, 4, 5, 6
_SPREAD = 1
_PROMOTE_128 = 2
_TENSOR_MAP_BYTES = 128
_HOST_TYPES = {8: 10, 9: 8, 10: 9}
"""Triton numbers element types like the hardware; the driver permutes these three."""


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute``, whose value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


@lru_cache(maxsize=256)
def launch_config(shape: LaunchShape, stream: int) -> LaunchConfig:
    """The driver's structure for a launch; a cluster of blocks is one program of the grid."""
    x, y, z = (size * blocks for size, blocks in zip(shape.grid, shape.cluster, strict=True))
    requested: list[tuple[int, tuple[int, ...]]] = []
    if shape.dependent:
        requested.append((_DEPENDENT, (1,)))
    if shape.cooperative:
        requested.append((_COOPERATIVE, (1,)))
    if prod(shape.cluster) > 1:
        requested += [(_CLUSTER, shape.cluster), (_CLUSTER_POLICY, (_SPREAD,))]
    attributes = (LaunchAttribute * max(1, len(requested)))()
    for attribute, (kind, numbers) in zip(attributes, requested, strict=False):
        attribute.id = kind
        attribute.value[: len(numbers)] = numbers
    config = LaunchConfig((x, y, z), (shape.threads, 1, 1), shape.shared_bytes, stream)
    config.attributes = attributes  # ctypes keeps the array alive with the structure
    config.attribute_count = len(requested)
    return config


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The driver's parameters of a descriptor, with reversed dimensions as in Triton's launcher."""

    element: int
    """The driver's number of the element type."""
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    """In bytes."""
    box: tuple[int, ...]
    swizzle: int

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.box)

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], meta: Mapping[str, Any]) -> TensorMap:
        """The parameters of a tensor, given the descriptor's entry in the kernel's ABI."""
        rank = len(meta["block_size"])
        if not len(shape) == len(strides) == rank or strides[-1] != 1:
            raise GpuError(
                f"a descriptor of blocks {list(meta['block_size'])} cannot be made for shape "
                f"{list(shape)} with strides {list(strides)}: ranks must agree and the last "
                "stride must be 1"
            )
        sizes = [*shape[:-1], shape[-1] * (2 if meta.get("fp4_padded") else 1)][::-1]
        steps = [stride * meta["elem_size"] for stride in strides[:-1]][::-1]
        steps.append(sizes[-1] * (steps[-1] if steps else meta["elem_size"]))
        element = _HOST_TYPES.get(meta["elem_type"], meta["elem_type"])
        box = tuple(reversed(meta["block_size"]))
        return cls(element, tuple(sizes), tuple(steps), box, meta["swizzle"])


class CudaGpu(StreamGpu):
    """An NVIDIA GPU."""

    def __init__(self, library: Library, device: Device, index: int) -> None:
        self._ordinal = library.number("device", index)
        self._context = library.handle("retain context", self._ordinal)
        self._get_current = library.function("current context")
        super().__init__(library, device, index)

    def _enter(self) -> int | None:
        place = ctypes.c_void_p()
        code = self._get_current(ctypes.byref(place))
        if code:
            raise self._library.error("current context", code)
        before = place.value
        if before == self._context:
            return None
        self._library("enter context", self._context)
        return before or 0

    def _leave(self, before: int) -> None:
        with suppress(GpuError):  # after a fault, which is the error to report
            self._library.handle("leave context")

    def _allow_shared(self, function: int, shared_bytes: int) -> None:
        if shared_bytes > _FREE_SHARED:
            self._call("prefer", function, _PREFER_SHARED)
            self._call("set function attribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)

    def _launch(
        self, function: int, shape: LaunchShape, arguments: Arguments, stream: int
    ) -> tuple[str, tuple[Any, ...]]:
        if prod(shape.cluster) > _PORTABLE_CLUSTER:
            self._call("set function attribute", function, _LARGE_CLUSTERS, 1)
        config = ctypes.byref(launch_config(shape, stream))
        return "launch", (config, function, arguments.addresses, None)

    @property
    def context(self) -> int:
        """The handle of the primary context."""
        return self._context

    def tensor_map(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: dict[str, Any],
    ) -> bytes:
        """Encode a descriptor."""
        requested = TensorMap.of(shape, strides, meta)
        rank = requested.rank
        memory = ctypes.create_string_buffer(2 * _TENSOR_MAP_BYTES)
        start = -(-ctypes.addressof(memory) // _TENSOR_MAP_BYTES) * _TENSOR_MAP_BYTES
        try:
            self._call(
                "encode tensor map",
                start,
                requested.element,
                rank,
                address,
                (ctypes.c_uint64 * rank)(*requested.sizes),
                (ctypes.c_uint64 * rank)(*requested.steps),
                (ctypes.c_uint32 * rank)(*requested.box),
                (ctypes.c_uint32 * rank)(*[1] * rank),
                0,  # not interleaved
                requested.swizzle,
                _PROMOTE_128,
                0,  # zeros beyond the edge
            )
        except CallError as error:
            raise GpuError(
                f"no descriptor for shape {list(shape)}, strides {list(strides)}, blocks "
                f"{list(meta['block_size'])} and swizzle {meta['swizzle']}: {error}",
                fault=error.fault,
            ) from None
        return ctypes.string_at(start, _TENSOR_MAP_BYTES)

    def close(self) -> None:
        """Release the stream and the context."""
        if self.stream:
            super().close()
            self._library("release context", self._ordinal)


class CudaDriver:
    """Implements `skipjack.gpu.driver.Driver`."""

    name = "cuda"

    def __init__(self, handle: Any) -> None:
        """`handle` is the library, which is initialized; that fails if there is no GPU."""
        self._library = Library(handle, "CUDA", SYMBOLS, _OWN)
        self._library("start", 0)

    def version(self) -> tuple[int, int]:
        """The newest CUDA version that the driver supports."""
        number = self._library.number("version")
        return number // 1000, number % 1000 // 10

    def devices(self) -> Sequence[Device]:
        """All GPUs in the driver's order."""
        return [self._describe(index) for index in range(self._library.number("count"))]

    def open(self, index: int) -> CudaGpu:
        """Open a GPU for launches."""
        return CudaGpu(self._library, self._describe(index), index)

    def _describe(self, index: int) -> Device:
        ordinal = self._library.number("device", index)
        return Device(
            self.name,
            f"sm_{self._attribute(_MAJOR, ordinal)}{self._attribute(_MINOR, ordinal)}",
            self._attribute(_UNITS, ordinal),
            self._library.device_name(ordinal),
            caches=(
                ("shared", self._attribute(_SHARED, ordinal)),
                ("L2", self._attribute(_L2, ordinal)),
            ),
            memory_bytes=self._library.size("device memory", ordinal),
            serial=self._library.device_serial(ordinal),
        )

    def _attribute(self, number: int, ordinal: int) -> int:
        return self._library.number("device attribute", number, ordinal)
