"""A tuned GPU kernel as a Python function on tensors of PyTorch, CuPy or other packages.

Nothing is compiled: the binary comes with its launch ABI. A call runs on the GPU of its tensors,
on the current stream of PyTorch or CuPy if the tensors are theirs, else on the stream that a tensor
names, else on the default stream. Several threads and streams may use one kernel.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

from skipjack.core import Problem
from skipjack.execute.gpu import LoadedKernel, Queue, checked_artifact
from skipjack.gpu import (
    Gpu,
    GpuError,
    check_fit,
    find_gpu,
    from_slots,
    open_driver,
    open_gpu,
    scratch_sizes,
)
from skipjack.runtime.local_kernels.gpu_arguments import (
    GpuArguments,
    TorchTensors,
    current_stream,
    index_of,
    is_capturing,
)
from skipjack.runtime.local_kernels.kernel import Again, KernelCode, pickled

log = logging.getLogger(__name__)

_MOST_LAID_OUT = 128
"""Sets of addresses for which a kernel keeps prepared launches on a GPU, a few kilobytes each."""

_dropped: list[tuple[Gpu, LoadedKernel]] = []
"""Unreferenced kernels. They are freed when the next one is loaded: garbage collection may happen
at any moment, and freeing waits for the GPU."""


@cache
def shared_gpu(which: str) -> Gpu:
    """The process's object for a GPU; loaded code stays valid as long as it exists."""
    return open_gpu(which)


def free_dropped() -> None:
    """Free code and memory of unreferenced kernels after all queued work has run."""
    if is_capturing():
        return  # waiting would abort the capture
    with suppress(IndexError):  # another thread may free the last one
        while True:
            _free(*_dropped.pop())


def _free(gpu: Gpu, loaded: LoadedKernel) -> None:
    try:
        gpu.drain()
        loaded.free()
    except GpuError as error:
        log.info("cannot free the memory of a kernel: %s", error)


@dataclass(frozen=True, slots=True)
class _Addresses:
    addresses: dict[str, int]


class _OnGpu:
    """A kernel's code and memory on one GPU; freed some time after the last reference is gone.

    Launches stay prepared, with the descriptors of their tensors, for the next call on the same
    addresses. They depend on nothing but the addresses, and keep no tensor alive.
    """

    def __init__(self, gpu: Gpu, loaded: LoadedKernel, arguments: GpuArguments) -> None:
        self.gpu, self.loaded = gpu, loaded
        self._arguments = arguments
        self._laying_out = Lock()
        self._queues: dict[tuple[int, ...], Queue] = {}
        """Prepared launches by stream and addresses."""
        weakref.finalize(self, _dropped.append, (gpu, loaded)).atexit = False

    def queue(self, key: tuple[int, ...]) -> Queue:
        """The launches for a stream and the addresses of the tensors, which together are `key`.

        Any thread may call it.
        """
        return self._queues.get(key) or self._laid_out(key)

    def _laid_out(self, key: tuple[int, ...]) -> Queue:
        stream, *addresses = key
        self._arguments.check_apart(addresses)
        places = _Addresses(dict(zip(self._arguments.names, addresses, strict=True)))
        queue = self.loaded.bind(places, stream)
        with self._laying_out:
            while len(self._queues) >= _MOST_LAID_OUT:
                del self._queues[next(iter(self._queues))]
            self._queues[key] = queue
        return queue


class _TorchCalls:
    """Quick calls on PyTorch tensors on one GPU, after a first call that was checked in full."""

    __slots__ = ("_first", "_several", "_stream", "check", "on")

    def __init__(
        self, check: TorchTensors, arguments: GpuArguments, on: _OnGpu, stream: Callable[[], int]
    ) -> None:
        self.check, self.on, self._stream = check, on, stream
        self._first, self._several = len(arguments.inputs), len(arguments.outputs) > 1

    def run(self, arrays: tuple[Any, ...]) -> Any:
        """Queue the kernel on checked tensors; returns the outputs."""
        self.on.queue((self._stream(), *[array.data_ptr() for array in arrays]))()
        return arrays[self._first :] if self._several else arrays[self._first]

    def bound(self, arrays: tuple[Any, ...]) -> BoundGpuKernel:
        """The kernel bound to checked tensors."""
        addresses = tuple([array.data_ptr() for array in arrays])
        out = arrays[self._first :] if self._several else arrays[self._first]
        return BoundGpuKernel(self.on, addresses, self._stream, out, arrays)


class GpuKernel:
    """Call it with the inputs in order; it returns the output, or writes into ``out=``.

    Inputs are contiguous tensors on one GPU. The launch is asynchronous, like all work on a GPU.
    Keep the kernel alive as long as a graph that captured its calls.
    """

    source = ""
    """The step of the lookup that found it; empty if it is not from a lookup."""

    def __init__(
        self,
        problem: Problem,
        code: KernelCode,
        which: str = "0",
        again: Again | None = None,
        solver: str = "",
    ) -> None:
        """`which` is the GPU for tensors that do not say theirs; others are used on demand."""
        free_dropped()
        driver, self._index, device = find_gpu(which)
        self.problem, self.solver, self.digest = problem, solver, code.digest
        self._again = again
        self._arguments = GpuArguments(problem)
        self._driver = driver.name
        self._artifact = checked_artifact(code.data, code.digest, code.abi, device.arch)
        self._steps = from_slots(code.slots)
        self._loading = Lock()
        self._places: dict[int, _OnGpu] = {}
        self._torch_calls: tuple[_TorchCalls, ...] = ()
        """One for each GPU on which it was called with PyTorch tensors."""
        self.scratch_bytes = sum(scratch_sizes(self._steps).values())
        """Scratch memory on the GPU, for each stream that it is called on."""
        self._on(self._index)

    def __reduce__(self) -> Again:
        return pickled(self.problem, self._again)

    def _on(self, index: int) -> _OnGpu:
        with self._loading:
            if index not in self._places:
                gpu = shared_gpu(f"{self._driver}:{index}")
                check_fit(self._artifact, gpu.device, open_driver(self._driver).version())
                loaded = LoadedKernel(gpu, self._artifact, self._steps)
                self._places[index] = _OnGpu(gpu, loaded, self._arguments)
            return self._places[index]

    def loaded(self, index: int) -> LoadedKernel:
        """Its code on the GPU of this number, valid as long as this kernel."""
        return self._on(index).loaded

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, the main one first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; returns the output, or a tuple if there are several."""
        for calls in self._torch_calls:
            arrays = calls.check(inputs, out)
            if arrays is not None:
                return calls.run(arrays)
        return self._bound(inputs, out)()

    def bind(self, *inputs: Any, out: Any = None) -> BoundGpuKernel:
        """A call on exactly these tensors, checked and packed once."""
        for calls in self._torch_calls:
            arrays = calls.check(inputs, out)
            if arrays is not None:
                return calls.bound(arrays)
        return self._bound(inputs, out)

    def _bound(self, inputs: tuple[Any, ...], out: Any) -> BoundGpuKernel:
        """A call on any tensors, checked in full; later calls on tensors like these are quicker."""
        tensors = self._arguments.tensors(inputs, out)
        seen = self._arguments.check(tensors)
        arrays = tuple(tensors.values())
        index = index_of(seen, self._index)
        on, stream = self._on(index), current_stream(arrays, index)
        for busy in {one.stream for one in seen.values()} - {None, stream()}:
            on.gpu.synchronize(busy)
        addresses = tuple(one.address for one in seen.values())
        bound = BoundGpuKernel(on, addresses, stream, self._arguments.result(tensors), arrays)
        self._remember(arrays, on, stream)
        return bound

    def _remember(self, arrays: tuple[Any, ...], on: _OnGpu, stream: Callable[[], int]) -> None:
        """Check tensors like these quickly from now on."""
        check = self._arguments.torch_tensors(arrays)
        if check is None:
            return
        calls = _TorchCalls(check, self._arguments, on, stream)
        with self._loading:
            if all(known.on is not on for known in self._torch_calls):
                self._torch_calls = (*self._torch_calls, calls)


class BoundGpuKernel:
    """A kernel and its tensors; each call computes into the same outputs."""

    __slots__ = ("_addresses", "_keep", "_on", "_queues", "_stream", "out")

    def __init__(
        self,
        on: _OnGpu,
        addresses: tuple[int, ...],
        stream: Callable[[], int],
        out: Any,
        keep: tuple[Any, ...],
    ) -> None:
        self._on, self._addresses, self._stream, self._keep = on, addresses, stream, keep
        self._queues: dict[int, Queue] = {}
        self.out = out
        """The output's tensor, or a tuple of all outputs."""
        self._queue(stream())  # report invalid tensors now

    def __call__(self) -> Any:
        """Queue it on the current stream; returns `out`."""
        stream = self._stream()
        (self._queues.get(stream) or self._queue(stream))()
        return self.out

    def _queue(self, stream: int) -> Queue:
        found = self._queues[stream] = self._on.queue((stream, *self._addresses))
        return found
