"""Tensors as arguments of a GPU kernel, from PyTorch and others: checked against its problem."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from skipjack.core import DTYPES, Problem, Tensor
from skipjack.errors import UsageError
from skipjack.operations import get, outputs, tensor_dtype
from skipjack.reading import numbered
from skipjack.runtime.local_kernels.arguments import given_outputs

# Tensors of other packages on a GPU: their addresses, dtypes and streams.

_DEFAULT_STREAMS = (1, 2)
"""Their numbers in array interfaces; the driver's stream 0 synchronizes with both."""


@dataclass(frozen=True, slots=True)
class GpuTensor:
    """What a kernel needs to know of a tensor."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    """NumPy's name; ``void16`` are two bytes of a type unknown to NumPy."""
    contiguous: bool
    index: int | None = None
    """The number of its GPU; None if its owner does not say."""
    writable: bool = True
    stream: int | None = None
    """The stream on which work on it may still be running; None if there is nothing to wait for."""


def look_at(array: Any) -> GpuTensor | None:
    """A PyTorch tensor, or an object with the CUDA array interface; None for anything else."""
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
    """The dtype of an interface; types unknown to NumPy are bytes there, and named by the array."""
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
    """A function that returns the current stream of these tensors' owner, on this GPU.

    It is PyTorch's or CuPy's current stream if a tensor is theirs, else the stream that a tensor
    names, else the default stream.
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
    """Whether PyTorch is capturing a graph in this thread."""
    torch = sys.modules.get("torch")
    return bool(
        torch is not None
        and torch.cuda.is_initialized()
        and torch.cuda.is_current_stream_capturing()
    )


def _handle(stream: Any) -> int:
    return 0 if stream in _DEFAULT_STREAMS else int(stream)


# The tensors that a GPU kernel takes: checked against its problem, or refused with a message.


class GpuArguments:
    """The tensors of one problem: inputs in the order of a call, then outputs."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.inputs, self.outputs = get(problem.operation).inputs(problem), outputs(problem)
        self.output_names = tuple(tensor.name for tensor in self.outputs)
        self.names = tuple(tensor.name for tensor in (*self.inputs, *self.outputs))
        self._sizes = [
            tensor.size * DTYPES[tensor_dtype(problem, tensor)].bytes
            for tensor in (*self.inputs, *self.outputs)
        ]

    def tensors(self, inputs: Sequence[Any], out: Any) -> dict[str, Any]:
        """Tensors by name, unchecked; missing outputs are allocated."""
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{self._problem.key} takes {numbered(len(self.inputs), 'tensor')}, "
                f"not {len(inputs)}"
            )
        given = given_outputs(self._problem, self.output_names, out)
        tensors = dict(zip(self.names, inputs, strict=False))
        for tensor in self.outputs:
            array = given.get(tensor.name)
            tensors[tensor.name] = self._empty(tensor, inputs) if array is None else array
        return tensors

    def check(self, tensors: dict[str, Any]) -> dict[str, GpuTensor]:
        """The location of each tensor; `UsageError` says what does not fit."""
        seen = {
            tensor.name: self._checked(tensor, tensors[tensor.name])
            for tensor in (*self.inputs, *self.outputs)
        }
        for name in self.output_names:
            if not seen[name].writable:
                raise UsageError(f"{name} is an output, but its array is read-only")
        self.check_apart([one.address for one in seen.values()])
        return seen

    def check_apart(self, addresses: Sequence[int]) -> None:
        """Refuse outputs that overlap another tensor; their addresses follow the inputs'."""
        sizes = self._sizes
        for output in range(len(self.inputs), len(sizes)):
            start, end = addresses[output], addresses[output] + sizes[output]
            for other in range(output):
                if addresses[other] < end and start < addresses[other] + sizes[other]:
                    raise UsageError(
                        f"{self.names[output]} must not overlap an input or another output"
                    )

    def result(self, tensors: dict[str, Any]) -> Any:
        """The result of a call: the output, or a tuple of several."""
        results = tuple(tensors[name] for name in self.output_names)
        return results if len(results) > 1 else results[0]

    def torch_tensors(self, checked: Sequence[Any]) -> TorchTensors | None:
        """A quick check for further calls on this GPU; None if not all tensors are PyTorch's."""
        torch = sys.modules.get("torch")
        if torch is None or not all(isinstance(one, torch.Tensor) for one in checked):
            return None
        wanted = [
            (getattr(torch, DTYPES[tensor_dtype(self._problem, one)].storage, None), one.shape)
            for one in (*self.inputs, *self.outputs)
        ]
        if any(dtype is None for dtype, _ in wanted):
            return None
        return TorchTensors(torch, wanted, len(self.inputs), checked[0].device)

    def _empty(self, tensor: Tensor, inputs: Sequence[Any]) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not inputs or not isinstance(inputs[0], torch.Tensor):
            raise UsageError(f"pass {tensor.name} in out=: only PyTorch tensors are allocated here")
        storage = DTYPES[tensor_dtype(self._problem, tensor)].storage
        return torch.empty(tensor.shape, dtype=getattr(torch, storage), device=inputs[0].device)

    def _checked(self, tensor: Tensor, array: Any) -> GpuTensor:
        found = look_at(array)
        if found is None:
            raise UsageError(f"{tensor.name} is not on a GPU: it is of type {type(array).__name__}")
        dtype = DTYPES[tensor_dtype(self._problem, tensor)]
        unnamed = not dtype.storage.startswith(("float16", "float32", "float64"))
        fitting = (dtype.storage, f"void{8 * dtype.bytes}") if unnamed else (dtype.storage,)
        if found.shape != tensor.shape or found.dtype not in fitting:
            raise UsageError(
                f"{tensor.name} must be {dtype.storage} of shape {tensor.shape}, "
                f"not {found.dtype} of shape {found.shape}"
            )
        if not found.contiguous:
            raise UsageError(f"{tensor.name} must be contiguous")
        return found


class TorchTensors:
    """A quick check that a call's tensors are PyTorch's, on one GPU, and fit the problem.

    It checks what `GpuArguments` checks, much faster and without messages: calls that it does not
    accept are checked again there, and may be valid.
    """

    __slots__ = ("_count", "_empty", "_inputs", "_tensor", "_wanted", "device")

    def __init__(
        self, torch: Any, wanted: Sequence[tuple[Any, tuple[int, ...]]], inputs: int, device: Any
    ) -> None:
        """`wanted` has the dtypes and shapes of the inputs, then those of the outputs."""
        self._tensor, self._empty, self.device = torch.Tensor, torch.empty, device
        self._wanted, self._inputs, self._count = tuple(wanted), inputs, len(wanted)

    def __call__(self, inputs: tuple[Any, ...], out: Any) -> tuple[Any, ...] | None:
        """Inputs, then outputs, which are allocated if `out` is None; None if something differs."""
        if len(inputs) != self._inputs:
            return None
        if out is None:
            arrays = inputs
        elif isinstance(out, self._tensor):
            arrays = (*inputs, out)
        elif isinstance(out, tuple | list):
            arrays = (*inputs, *out)
        else:
            return None
        if len(arrays) != self._count and out is not None:
            return None
        tensor, device = self._tensor, self.device
        for array, (dtype, shape) in zip(arrays, self._wanted, strict=False):
            if (
                not isinstance(array, tensor)
                or array.device != device
                or array.dtype is not dtype
                or array.shape != shape
                or not array.is_contiguous()
            ):
                return None
        if out is None:
            made = self._wanted[self._inputs :]
            empty = self._empty
            arrays += tuple([empty(shape, dtype=dtype, device=device) for dtype, shape in made])
        return arrays


def index_of(seen: dict[str, GpuTensor], default: int) -> int:
    """The number of the GPU that tensors are on."""
    told = {name: one.index for name, one in seen.items() if one.index is not None}
    if len(set(told.values())) > 1:
        places = ", ".join(f"{name} on GPU {index}" for name, index in told.items())
        raise UsageError(f"the tensors of a call must be on one GPU, but these are {places}")
    return next(iter(told.values()), default)
