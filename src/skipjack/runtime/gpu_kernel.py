"""A tuned GPU kernel as a Python function on tensors of PyTorch, CuPy or others on the GPU.

Nothing is compiled: the binary comes with its launch ABI. A call runs on the GPU that its tensors
are on and on the current stream of PyTorch or CuPy, whose tensors they are, else on the stream that
a tensor names, else on the default one. Several threads and streams may use one kernel.
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

from skipjack.core.problem import Problem
from skipjack.execute.gpu import LoadedKernel, Queue, checked_artifact
from skipjack.gpu.driver import Gpu, GpuError
from skipjack.gpu.fitting import check_fit
from skipjack.gpu.opening import find_gpu, open_driver, open_gpu
from skipjack.gpu.plan import from_slots, scratch_sizes
from skipjack.runtime.gpu_arguments import GpuArguments, TorchTensors, index_of
from skipjack.runtime.gpu_tensors import current_stream, is_capturing
from skipjack.runtime.kernel_code import Again, KernelCode, pickled

log = logging.getLogger(__name__)

_MOST_LAID_OUT = 128
"""Sets of addresses for which a kernel keeps its launches on a GPU, some kilobytes each."""

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
    """A kernel's code and memory on one GPU; freed some time after the last who has it.

    Launches stay laid out, with the descriptors of their tensors, for the next call on the same
    addresses. They depend on nothing else of the tensors, and keep none of them.
    """

    def __init__(self, gpu: Gpu, loaded: LoadedKernel, arguments: GpuArguments) -> None:
        self.gpu, self.loaded = gpu, loaded
        self._arguments = arguments
        self._laying_out = Lock()
        self._queues: dict[tuple[int, ...], Queue] = {}
        """By stream and addresses."""
        weakref.finalize(self, _dropped.append, (gpu, loaded)).atexit = False

    def queue(self, key: tuple[int, ...]) -> Queue:
        """The launches on a stream, which is the first of `key`, and tensors at the others.

        It may be called by any thread.
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
    """Calls on PyTorch's tensors on one GPU, where calls were checked at length before."""

    __slots__ = ("_first", "_several", "_stream", "check", "on")

    def __init__(
        self, check: TorchTensors, arguments: GpuArguments, on: _OnGpu, stream: Callable[[], int]
    ) -> None:
        self.check, self.on, self._stream = check, on, stream
        self._first, self._several = len(arguments.inputs), len(arguments.outputs) > 1

    def run(self, arrays: tuple[Any, ...]) -> Any:
        """Queue it on tensors that were checked; gives the outputs."""
        self.on.queue((self._stream(), *[array.data_ptr() for array in arrays]))()
        return arrays[self._first :] if self._several else arrays[self._first]

    def bound(self, arrays: tuple[Any, ...]) -> BoundGpuKernel:
        """To be queued on tensors that were checked."""
        addresses = tuple([array.data_ptr() for array in arrays])
        out = arrays[self._first :] if self._several else arrays[self._first]
        return BoundGpuKernel(self.on, addresses, self._stream, out, arrays)


class GpuKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``.

    Inputs are contiguous tensors on one GPU. The launch is asynchronous, as all work of a GPU. Keep
    it as long as a graph that recorded its calls.
    """

    source = ""
    """What answered the lookup that gave it; empty if it is of none."""

    def __init__(
        self,
        problem: Problem,
        code: KernelCode,
        which: str = "0",
        again: Again | None = None,
        solver: str = "",
    ) -> None:
        """`which` GPU is meant where tensors do not say; it is loaded on others as they do."""
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
        """One for each GPU that PyTorch's tensors of a call were on."""
        self.lent_bytes = sum(scratch_sizes(self._steps).values())
        """Of the GPU's memory, for every stream that it is called on."""
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
        """Its code on the GPU of this number, which lives as long as this kernel."""
        return self._on(index).loaded

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is written, the main output first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; gives the output, or a tuple of them where there are several."""
        for calls in self._torch_calls:
            arrays = calls.check(inputs, out)
            if arrays is not None:
                return calls.run(arrays)
        return self._bound(inputs, out)()

    def bind(self, *inputs: Any, out: Any = None) -> BoundGpuKernel:
        """The call on these very tensors, checked and packed once."""
        for calls in self._torch_calls:
            arrays = calls.check(inputs, out)
            if arrays is not None:
                return calls.bound(arrays)
        return self._bound(inputs, out)

    def _bound(self, inputs: tuple[Any, ...], out: Any) -> BoundGpuKernel:
        """Any tensors, and what is wrong with them in a sentence; later calls may be quicker."""
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
        """Tensors like these will be checked quickly."""
        check = self._arguments.torch_tensors(arrays)
        if check is None:
            return
        calls = _TorchCalls(check, self._arguments, on, stream)
        with self._loading:
            if all(known.on is not on for known in self._torch_calls):
                self._torch_calls = (*self._torch_calls, calls)


class BoundGpuKernel:
    """A kernel and its tensors; calling it computes into the same outputs again."""

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
        self._queue(stream())  # what is wrong with the tensors is told now

    def __call__(self) -> Any:
        """Queue it on the current stream; gives `out`."""
        stream = self._stream()
        (self._queues.get(stream) or self._queue(stream))()
        return self.out

    def _queue(self, stream: int) -> Queue:
        found = self._queues[stream] = self._on.queue((stream, *self._addresses))
        return found
