"""A tuned GPU kernel as a Python function on tensors of PyTorch, CuPy or others on the GPU.

Nothing is compiled: the binary comes with its launch ABI. A call runs on the GPU that its tensors
are on and on the current stream of PyTorch or CuPy, whose tensors they are, else on the stream that
a tensor names, else on the default one. Several threads and streams may use one kernel.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.execute.gpu.kernel import LoadedKernel, Queue, checked_artifact
from skipjack.gpu.driver import Gpu, GpuError
from skipjack.gpu.fitting import check_fit
from skipjack.gpu.opening import find_gpu, open_driver, open_gpu
from skipjack.gpu.plan import from_slots
from skipjack.operations import get, outputs, tensor_dtype
from skipjack.runtime.gpu_tensors import GpuTensor, current_stream, is_capturing, look_at
from skipjack.runtime.kernel_code import Again, KernelCode, pickled

log = logging.getLogger(__name__)

_dropped: list[tuple[Gpu, LoadedKernel]] = []
"""Kernels that nobody has any more. They are freed when the next one is loaded: garbage may be
collected in the middle of anything, and freeing waits for the GPU."""


@cache
def shared_gpu(which: str) -> Gpu:
    """One for the process: loaded code stays valid as long as it."""
    return open_gpu(which)


def free_dropped() -> None:
    """Free code and memory of kernels that are gone, once all that was queued has run."""
    if is_capturing():
        return  # waiting would end it
    with suppress(IndexError):  # another thread may take the last one
        while True:
            _free(*_dropped.pop())


def _free(gpu: Gpu, loaded: LoadedKernel) -> None:
    try:
        gpu.drain()
        loaded.free()
    except GpuError as error:
        log.info("a kernel's memory cannot be given back: %s", error)


@dataclass(frozen=True, slots=True)
class _Addresses:
    addresses: dict[str, int]


class _OnGpu:
    """A kernel's code and memory on one GPU; freed some time after the last who has it."""

    def __init__(self, gpu: Gpu, loaded: LoadedKernel) -> None:
        self.gpu, self.loaded = gpu, loaded
        weakref.finalize(self, _dropped.append, (gpu, loaded)).atexit = False


class GpuKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``.

    Inputs are contiguous tensors on one GPU. The launch is asynchronous, as all work of a GPU. Keep
    it as long as a graph that recorded its calls.
    """

    def __init__(
        self, problem: Problem, code: KernelCode, which: str = "0", again: Again | None = None
    ) -> None:
        """`which` GPU is meant where tensors do not say; it is loaded on others as they do."""
        free_dropped()
        driver, self._index, device = find_gpu(which)
        self.problem = problem
        self._again = again
        self._inputs, self._outputs = get(problem.operation).inputs(problem), outputs(problem)
        self._driver = driver.name
        self._artifact = checked_artifact(code.data, code.digest, code.abi, device.arch)
        self._steps = from_slots(code.slots)
        self._loading = Lock()
        self._places: dict[int, _OnGpu] = {}
        self._on(self._index)

    def __reduce__(self) -> Again:
        return pickled(self.problem, self._again)

    def _on(self, index: int) -> _OnGpu:
        with self._loading:
            if index not in self._places:
                gpu = shared_gpu(f"{self._driver}:{index}")
                check_fit(self._artifact, gpu.device, open_driver(self._driver).version())
                loaded = LoadedKernel(gpu, self._artifact, self._steps)
                self._places[index] = _OnGpu(gpu, loaded)
            return self._places[index]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is written, the main output first."""
        return tuple(tensor.name for tensor in self._outputs)

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; gives the output, or a tuple of them where there are several."""
        return self.bind(*inputs, out=out)()

    def bind(self, *inputs: Any, out: Any = None) -> BoundGpuKernel:
        """The call on these very tensors, checked and packed once."""
        if len(inputs) != len(self._inputs):
            raise UsageError(
                f"{self.problem.key} takes {len(self._inputs)} tensors, {len(inputs)} were given"
            )
        given = self._given(out, inputs)
        arrays = (*inputs, *given)
        tensors = (*self._inputs, *self._outputs)
        seen = {
            tensor.name: self._checked(tensor, array)
            for tensor, array in zip(tensors, arrays, strict=True)
        }
        for name in self.outputs:
            if not seen[name].writable:
                raise UsageError(f"{name} is written by the kernel, but its array is read-only")
        index = self._index_of(seen)
        on, stream = self._on(index), current_stream(arrays, index)
        for busy in {one.stream for one in seen.values()} - {None, stream()}:
            on.gpu.synchronize(busy)
        ranking = _Addresses({name: one.address for name, one in seen.items()})
        result = tuple(given) if len(given) > 1 else given[0]
        return BoundGpuKernel(on, ranking, stream, result, arrays)

    def _given(self, out: Any, inputs: Sequence[Any]) -> list[Any]:
        given = list(out) if isinstance(out, list | tuple) else [out]
        given += [None] * (len(self._outputs) - len(given))
        if len(given) > len(self._outputs):
            raise UsageError(f"{self.problem.key} has the outputs {', '.join(self.outputs)} alone")
        return [
            self._empty(tensor, inputs) if array is None else array
            for tensor, array in zip(self._outputs, given, strict=True)
        ]

    def _empty(self, tensor: Tensor, inputs: Sequence[Any]) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not inputs or not isinstance(inputs[0], torch.Tensor):
            raise UsageError(f"give {tensor.name} in out=: only tensors of PyTorch are made here")
        storage = DTYPES[tensor_dtype(self.problem, tensor)].storage
        return torch.empty(tensor.shape, dtype=getattr(torch, storage), device=inputs[0].device)

    def _checked(self, tensor: Tensor, array: Any) -> GpuTensor:
        found = look_at(array)
        if found is None:
            raise UsageError(f"{tensor.name} is not on a GPU: it is {type(array).__name__}")
        dtype = DTYPES[tensor_dtype(self.problem, tensor)]
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

    def _index_of(self, seen: dict[str, GpuTensor]) -> int:
        """The GPU that the tensors are on."""
        told = {name: one.index for name, one in seen.items() if one.index is not None}
        if len(set(told.values())) > 1:
            ranking = ", ".join(f"{name} on GPU {index}" for name, index in told.items())
            raise UsageError(f"the tensors of a call must lie on one GPU; here is {ranking}")
        return next(iter(told.values()), self._index)


class BoundGpuKernel:
    """A kernel and its tensors; calling it computes into the same outputs again."""

    __slots__ = ("_keep", "_on", "_places", "_queues", "_stream", "out")

    def __init__(
        self,
        on: _OnGpu,
        ranking: _Addresses,
        stream: Callable[[], int],
        out: Any,
        keep: tuple[Any, ...],
    ) -> None:
        self._on, self._places, self._stream, self._keep = on, ranking, stream, keep
        self._queues: dict[int, Queue] = {}
        self.out = out
        """The output's tensor, or a tuple of all outputs."""
        self._queue(stream())  # what is wrong with the tensors is told now

    def __call__(self) -> Any:
        """Queue it on the current stream; gives `out`."""
        self._queue(self._stream())()
        return self.out

    def _queue(self, stream: int) -> Queue:
        found = self._queues.get(stream)
        if found is None:
            found = self._queues[stream] = self._on.loaded.bind(self._places, stream)
        return found
