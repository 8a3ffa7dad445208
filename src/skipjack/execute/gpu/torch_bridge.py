"""PyTorch beside the driver: its tensors over our memory, its work on our stream."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from skipjack.core.dtypes import DTYPES
from skipjack.execute.gpu.arrays import DeviceArrays, dtype_of
from skipjack.gpu.driver import Gpu, GpuError, Graph
from skipjack.solvers.solver import ResultCall

log = logging.getLogger(__name__)

_LIBRARY_STATUS = "BLAS_STATUS"
"""As in ``CUBLAS_STATUS_NOT_SUPPORTED`` and ``HIPBLAS_STATUS_ALLOC_FAILED``."""


class TorchBridge:
    """PyTorch in this process, on one GPU. It shares the driver's primary context."""

    def __init__(self, torch: Any, gpu: Gpu) -> None:
        self.torch, self._gpu = torch, gpu
        self._device = f"cuda:{gpu.index}"
        self.stream = torch.cuda.ExternalStream(gpu.stream, device=self._device)

    @classmethod
    def load(cls, gpu: Gpu) -> TorchBridge | None:
        """None where PyTorch is not installed, or cannot use this GPU."""
        if gpu.device.kind not in ("cuda", "hip") or importlib.util.find_spec("torch") is None:
            return None
        try:
            torch = importlib.import_module("torch")
        except (ImportError, OSError) as error:
            log.warning("PyTorch cannot be loaded: %s", error)
            return None
        if not torch.cuda.is_available() or gpu.index >= torch.cuda.device_count():
            log.info("PyTorch here cannot use the GPU")
            return None
        return cls(torch, gpu)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """PyTorch's work goes to our stream, and its errors are told as the driver's are."""
        torch = self.torch
        try:
            with torch.cuda.device(self._device), torch.cuda.stream(self.stream):
                yield
        except torch.cuda.OutOfMemoryError as error:
            raise GpuError(_first_line(error), out_of_memory=True) from None
        except RuntimeError as error:
            raise self._told(error) from error

    def _told(self, error: RuntimeError) -> GpuError:
        """An error of PyTorch's as the driver would tell it."""
        said = _first_line(error)
        if _LIBRARY_STATUS in str(error):  # it calls all that a library refuses a CUDA error, too
            lacking = f"{_LIBRARY_STATUS}_ALLOC_FAILED" in str(error)
            return GpuError(said, fault=self._lost(), out_of_memory=lacking)
        return GpuError(said, fault="CUDA error" in str(error) or "HIP error" in str(error))

    def _lost(self) -> bool:
        """Whether the context is: then waiting for our stream fails as well."""
        try:
            self._gpu.synchronize()
        except GpuError as error:
            return error.fault
        return False

    def bytes_at(self, address: int, size: int) -> Any:
        """Memory as a tensor of bytes."""
        return self.torch.as_tensor(_Memory(address, size), device=self._device)

    def tensors(self, arrays: DeviceArrays) -> dict[str, Any]:
        """A set's tensors by name, in its very memory."""
        return {
            name: self.bytes_at(arrays.addresses[name], arrays.sizes[name])
            .view(getattr(self.torch, DTYPES[dtype_of(tensor, arrays.problem)].storage))
            .view(tensor.shape)
            for name, tensor in arrays.tensors.items()
        }

    def zeros(self, shape: Sequence[int], dtype: str) -> Any:
        """A tensor in memory of PyTorch's."""
        storage = getattr(self.torch, DTYPES[dtype].storage)
        return self.torch.zeros(shape, dtype=storage, device=self._device)

    def release(self) -> None:
        """Give back what PyTorch keeps for later."""
        self.torch.cuda.empty_cache()


class _Memory:
    """What PyTorch needs to see memory as a tensor."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__: Mapping[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 2,
        }


class TorchKernel:
    """A library's call on several sets of arrays; see `skipjack.execute.gpu.timing.Timeable`."""

    def __init__(self, bridge: TorchBridge, calls: Sequence[Callable[[], object]]) -> None:
        self._bridge = bridge
        self._calls = [call.compute if isinstance(call, ResultCall) else call for call in calls]

    @property
    def sets(self) -> int:
        """How many there are."""
        return len(self._calls)

    def queue(self, number: int) -> None:
        """Queue a call."""
        with self._bridge.working():
            self._calls[number % len(self._calls)]()

    def record(self, calls: int) -> Graph | None:
        """As a graph of PyTorch's, whose results lie in memory of the graph's own."""
        torch, bridge = self._bridge.torch, self._bridge
        graph = torch.cuda.CUDAGraph()
        try:
            with bridge.working():
                for number in range(self.sets):
                    self._calls[number]()  # libraries choose and allocate at the first call
                torch.cuda.synchronize()
                with torch.cuda.graph(
                    graph, stream=bridge.stream, capture_error_mode="thread_local"
                ):
                    for number in range(calls):
                        self._calls[number % self.sets]()
        except GpuError as error:
            log.info("a library's call cannot be recorded: %s", error)
            with bridge.working():
                torch.cuda.synchronize()  # raises if more than the recording is lost
            return None
        return _TorchGraph(bridge, graph)


class _TorchGraph:
    def __init__(self, bridge: TorchBridge, graph: Any) -> None:
        self._bridge, self._graph = bridge, graph

    def run(self) -> None:
        """Queue all of it."""
        with self._bridge.working():
            self._graph.replay()

    def close(self) -> None:
        """Free it."""
        self._graph.reset()


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]
