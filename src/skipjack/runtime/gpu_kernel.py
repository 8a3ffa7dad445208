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
from skipjack.execute.gpu.kernel import LoadedKernel, Queue, checked_artifact
from skipjack.gpu.driver import Gpu, GpuError
from skipjack.gpu.fitting import check_fit
from skipjack.gpu.opening import find_gpu, open_driver, open_gpu
from skipjack.gpu.plan import from_slots
from skipjack.runtime.gpu_arguments import GpuArguments, index_of
from skipjack.runtime.gpu_tensors import current_stream, is_capturing
from skipjack.runtime.kernel_code import KERNEL, Again, KernelCode, pickled

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

    source = KERNEL

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
        self.problem, self.solver = problem, solver
        self._again = again
        self._arguments = GpuArguments(problem)
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
        return self._arguments.output_names

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; gives the output, or a tuple of them where there are several."""
        return self.bind(*inputs, out=out)()

    def bind(self, *inputs: Any, out: Any = None) -> BoundGpuKernel:
        """The call on these very tensors, checked and packed once."""
        tensors = self._arguments.tensors(inputs, out)
        seen = self._arguments.check(tensors)
        arrays = tuple(tensors.values())
        index = index_of(seen, self._index)
        on, stream = self._on(index), current_stream(arrays, index)
        for busy in {one.stream for one in seen.values()} - {None, stream()}:
            on.gpu.synchronize(busy)
        places = _Addresses({name: one.address for name, one in seen.items()})
        return BoundGpuKernel(on, places, stream, self._arguments.result(tensors), arrays)


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
