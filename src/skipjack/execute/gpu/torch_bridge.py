"""PyTorch next to the driver: its tensors over our memory, its work on our stream, references in
float64.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.core import DTYPES, Problem, TorchMagnitude
from skipjack.execute.gpu.arrays import DeviceArrays, dtype_of
from skipjack.gpu import Gpu, GpuError, Graph
from skipjack.operations import Convolution, Elementwise, MatmulAttributes, Reduce, get
from skipjack.solvers import ResultCall
from skipjack.solvers.vendor import (
    convolution_call,
    has_function,
    is_product,
    product_function,
    reduction_function,
    vector_function,
)

# PyTorch next to the driver: its tensors in our memory, its work on our stream.

log = logging.getLogger(__name__)

_LIBRARY_STATUS = "BLAS_STATUS"
"""A part of ``CUBLAS_STATUS_NOT_SUPPORTED`` and ``HIPBLAS_STATUS_ALLOC_FAILED``."""


class TorchBridge:
    """PyTorch in this process, on one GPU. It shares the driver's primary context."""

    def __init__(self, torch: Any, gpu: Gpu) -> None:
        self.torch, self._gpu = torch, gpu
        self._device = f"cuda:{gpu.index}"
        self.stream = torch.cuda.ExternalStream(gpu.stream, device=self._device)

    @classmethod
    def load(cls, gpu: Gpu) -> TorchBridge | None:
        """None if PyTorch is not installed, or cannot use this GPU."""
        if gpu.device.kind not in ("cuda", "hip") or importlib.util.find_spec("torch") is None:
            return None
        try:
            torch = importlib.import_module("torch")
        except (ImportError, OSError) as error:
            log.warning("PyTorch cannot be loaded: %s", error)
            return None
        if not torch.cuda.is_available() or gpu.index >= torch.cuda.device_count():
            log.info("the installed PyTorch cannot use the GPU")
            return None
        return cls(torch, gpu)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Within the block, PyTorch's work goes to our stream, and its errors become `GpuError`."""
        torch = self.torch
        try:
            with torch.cuda.device(self._device), torch.cuda.stream(self.stream):
                yield
        except torch.cuda.OutOfMemoryError as error:
            raise GpuError(_first_line(error), out_of_memory=True) from None
        except RuntimeError as error:
            raise self._told(error) from error

    def _told(self, error: RuntimeError) -> GpuError:
        """The `GpuError` for an error of PyTorch."""
        said = _first_line(error)
        if _LIBRARY_STATUS in str(error):  # PyTorch calls refusals of a library CUDA errors, too
            lacking = f"{_LIBRARY_STATUS}_ALLOC_FAILED" in str(error)
            return GpuError(said, fault=self._lost(), out_of_memory=lacking)
        return GpuError(said, fault="CUDA error" in str(error) or "HIP error" in str(error))

    def _lost(self) -> bool:
        """Whether the context is lost: then waiting for our stream fails, too."""
        try:
            self._gpu.synchronize()
        except GpuError as error:
            return error.fault
        return False

    def bytes_at(self, address: int, size: int) -> Any:
        """Memory as a tensor of bytes."""
        return self.torch.as_tensor(_Memory(address, size), device=self._device)

    def tensors(self, arrays: DeviceArrays) -> dict[str, Any]:
        """A set's tensors by name, in the memory of the set."""
        return {
            name: self.bytes_at(arrays.addresses[name], arrays.sizes[name])
            .view(getattr(self.torch, DTYPES[dtype_of(tensor, arrays.problem)].storage))
            .view(tensor.shape)
            for name, tensor in arrays.tensors.items()
        }

    def zeros(self, shape: Sequence[int], dtype: str) -> Any:
        """A tensor in memory that PyTorch owns."""
        storage = getattr(self.torch, DTYPES[dtype].storage)
        return self.torch.zeros(shape, dtype=storage, device=self._device)

    def release(self) -> None:
        """Release memory that PyTorch has cached."""
        self.torch.cuda.empty_cache()


class _Memory:
    """Memory that PyTorch can use as a tensor."""

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
        """The number of sets."""
        return len(self._calls)

    def queue(self, number: int) -> None:
        """Queue a call."""
        with self._bridge.working():
            self._calls[number % len(self._calls)]()

    def record(self, calls: int) -> Graph | None:
        """The calls as a graph of PyTorch, whose results are in memory of the graph."""
        torch, bridge = self._bridge.torch, self._bridge
        graph = torch.cuda.CUDAGraph()
        try:
            with bridge.working():
                for number in range(self.sets):
                    self._calls[number]()  # libraries select kernels and allocate at the first call
                torch.cuda.synchronize()
                with torch.cuda.graph(
                    graph, stream=bridge.stream, capture_error_mode="thread_local"
                ):
                    for number in range(calls):
                        self._calls[number % self.sets]()
        except GpuError as error:
            log.info("a library's call cannot be recorded: %s", error)
            with bridge.working():
                torch.cuda.synchronize()  # raises if more than the recording has failed
            return None
        return _TorchGraph(bridge, graph)


class _TorchGraph:
    def __init__(self, bridge: TorchBridge, graph: Any) -> None:
        self._bridge, self._graph = bridge, graph

    def run(self) -> None:
        """Queue the graph."""
        with self._bridge.working():
            self._graph.replay()

    def close(self) -> None:
        """Free the graph."""
        self._graph.reset()


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


# References and magnitudes in float64 on the GPU, with PyTorch: hundreds of times faster.

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exact:
    """An output in float64, and the scale of its rounding errors."""

    reference: Any
    magnitude: Any


def exact_output(torch: Any, problem: Problem, inputs: Tensors) -> Exact | None:
    """The output for inputs in float64; None for operations that only the host can compute.

    For operations with one output, named ``out``.
    """
    operation = get(problem.operation)
    if is_product(problem):
        return _product(torch, problem, inputs)
    if isinstance(operation, Convolution):
        sizes = {name: tensor.abs() for name, tensor in inputs.items()}
        return Exact(*(_convolved(torch, problem, these) for these in (inputs, sizes)))
    if isinstance(operation, TorchMagnitude):
        reference = operation.torch_function(torch, problem)(inputs)["out"]
        return Exact(reference, operation.torch_magnitude(torch, problem, inputs, reference))
    if not has_function(problem):
        return None
    if isinstance(operation, Elementwise):
        return _elementwise(torch, operation, problem, inputs)
    if isinstance(operation, Reduce):
        return _reduced(torch, operation, problem, inputs)
    return None


def exact_sums(torch: Any, problem: Problem, inputs: Tensors) -> Any | None:
    """The output of a plain product or convolution; None if it is more than sums of products."""
    if isinstance(get(problem.operation), Convolution):
        return _convolved(torch, problem, inputs)
    if not is_product(problem):
        return None
    settings = MatmulAttributes.of(problem)
    plain = settings.alpha == 1.0 and settings.beta in (0.0, 1.0) and settings.act == "none"
    return product_function(torch, problem)(inputs) if plain else None


def _product(torch: Any, problem: Problem, inputs: Tensors) -> Exact:
    settings = MatmulAttributes.of(problem)
    reference = product_function(torch, problem)(inputs)
    sizes = {name: tensor.abs() for name, tensor in inputs.items()}
    a = sizes["a"].mT if settings.ta else sizes["a"]
    b = sizes["b"].mT if settings.tb else sizes["b"]
    scale = torch.matmul(a, b).mul_(abs(settings.alpha))
    if settings.beta:
        scale += abs(settings.beta) * sizes["c"]
    if settings.bias:
        scale += sizes["bias"]
    return Exact(reference, scale)


def _convolved(torch: Any, problem: Problem, inputs: Tensors) -> Any:
    shape = get(problem.operation).output(problem).shape
    some = next(iter(inputs.values()))
    torch.backends.cudnn.benchmark = False  # one call is not worth a search
    out = torch.empty(shape, dtype=some.dtype, device=some.device)
    convolution_call(torch, problem, {**inputs, "out": out})()
    return out


def _elementwise(torch: Any, operation: Elementwise, problem: Problem, inputs: Tensors) -> Exact:
    function = vector_function(torch, problem)
    assert function is not None, "asked before"
    reference = function(inputs)["out"]
    operands = [inputs[tensor.name] for tensor in operation.inputs(problem)]
    return Exact(reference, operation.scale(reference, operands))


def _reduced(torch: Any, operation: Reduce, problem: Problem, inputs: Tensors) -> Exact:
    axes, shape = list(operation.axes(problem)), operation.output(problem).shape
    x = inputs["x"]
    reference = reduction_function(torch, operation.name)(x, axes)
    name = "max" if operation.exact else operation.name
    scale = reduction_function(torch, name)(x.abs(), axes)
    return Exact(reference.reshape(shape), scale.reshape(shape))
