"""Other people's tensors on a GPU: where they lie, what they hold, and on which stream to work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

_DEFAULT_STREAMS = (1, 2)
"""As array interfaces name them; the driver's stream 0 is in order with both."""


@dataclass(frozen=True, slots=True)
class GpuTensor:
    """What a kernel needs to know of a tensor."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    """As NumPy names it; ``void16`` are two bytes that NumPy has no name for."""
    contiguous: bool
    index: int | None = None
    """Which GPU it is on; None if its owner does not say."""
    writable: bool = True
    stream: int | None = None
    """Where work on it may still be under way; None if there is none to wait for."""


def look_at(array: Any) -> GpuTensor | None:
    """A tensor of PyTorch, or of anybody who speaks the CUDA array interface."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return None
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    stream = interface.get("stream")
    return GpuTensor(
        int(address),
        shape,
        _dtype(array, interface["typestr"]),
        _contiguous(shape, interface.get("strides"), int(interface["typestr"][2:])),
        getattr(getattr(array, "device", None), "id", None),
        not read_only,
        None if stream is None else _handle(stream),
    )


def _of_torch(array: Any) -> GpuTensor | None:
    if array.device.type != "cuda":
        return None
    dtype = str(array.dtype).removeprefix("torch.")
    contiguous = bool(array.is_contiguous())
    return GpuTensor(
        array.data_ptr(), tuple(array.shape), dtype, contiguous, int(array.device.index)
    )


def _dtype(array: Any, typestr: str) -> str:
    """By the interface; types that NumPy does not have are bytes there, and named by the array."""
    told = np.dtype(typestr)
    if not told.isnative:
        return typestr
    return str(getattr(array, "dtype", told.name)) if told.kind == "V" else told.name


def _contiguous(shape: Sequence[int], strides: Sequence[int] | None, size: int) -> bool:
    if strides is None:
        return True
    rows = (size * prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return all(
        extent == 1 or stride == row
        for extent, stride, row in zip(shape, strides, rows, strict=True)
    )


def current_stream(arrays: Sequence[Any], index: int) -> Callable[[], int]:
    """What gives the stream on which the owner of these tensors works now, on this GPU.

    PyTorch's or CuPy's current one where a tensor is theirs, else the one that a tensor names,
    else the default one.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
        raw = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
        if raw is not None:  # the same, without an object for the stream
            return partial(raw, index)
        return lambda: int(torch.cuda.current_stream(index).cuda_stream)
    if cupy is not None and any(isinstance(array, cupy.ndarray) for array in arrays):

        def of_cupy() -> int:
            with cupy.cuda.Device(index):
                return _handle(cupy.cuda.get_current_stream().ptr)

        return of_cupy
    seen = (look_at(array) for array in arrays)
    named = next((one.stream for one in seen if one and one.stream is not None), 0)
    return lambda: named


def is_capturing() -> bool:
    """Whether PyTorch records a graph in this thread."""
    torch = sys.modules.get("torch")
    return bool(
        torch is not None
        and torch.cuda.is_initialized()
        and torch.cuda.is_current_stream_capturing()
    )


def _handle(stream: Any) -> int:
    return 0 if stream in _DEFAULT_STREAMS else int(stream)
