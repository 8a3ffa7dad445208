"""A tuned GPU kernel as a Python function on tensors of PyTorch, CuPy or others on the GPU.

Nothing is compiled: the binary comes with its launch ABI. Launches go to PyTorch's current stream
where PyTorch is loaded, else to the default one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.execute.gpu.kernel import LoadedKernel, checked_artifact
from skipjack.gpu.driver import Gpu
from skipjack.gpu.opening import open_gpu
from skipjack.gpu.plan import from_slots
from skipjack.operations import get, outputs, tensor_dtype
from skipjack.tuning.result import KernelCode


@cache
def shared_gpu(which: str) -> Gpu:
    """One for the process: loaded code stays valid as long as it."""
    return open_gpu(which)


@dataclass(frozen=True, slots=True)
class _Addresses:
    addresses: dict[str, int]


class GpuKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``.

    Inputs are contiguous tensors on the GPU. The launch is asynchronous, as all work of a GPU.
    """

    def __init__(self, problem: Problem, code: KernelCode, which: str = "0") -> None:
        gpu = self._gpu = shared_gpu(which)
        artifact = checked_artifact(code.data, code.digest, code.abi, gpu.device.arch)
        self.problem = problem
        self._inputs, self._outputs = get(problem.operation).inputs(problem), outputs(problem)
        self._loaded = LoadedKernel(gpu, artifact, from_slots(code.slots))

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
        tensors = [*zip(self._inputs, inputs, strict=True), *zip(self._outputs, given, strict=True)]
        addresses = {tensor.name: self._address(tensor, array) for tensor, array in tensors}
        queue = self._loaded.bind(_Addresses(addresses))
        result = tuple(given) if len(given) > 1 else given[0]
        return BoundGpuKernel(self._gpu, queue, result, (*inputs, *given))

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

    def _address(self, tensor: Tensor, array: Any) -> int:
        found = _look_at(array)
        if found is None:
            raise UsageError(f"{tensor.name} is not on a GPU: it is {type(array).__name__}")
        wanted = DTYPES[tensor_dtype(self.problem, tensor)].storage
        if found.shape != tensor.shape or found.dtype not in (wanted, ""):
            raise UsageError(
                f"{tensor.name} must be {wanted} of shape {tensor.shape}, "
                f"not {found.dtype} of shape {found.shape}"
            )
        if not found.contiguous:
            raise UsageError(f"{tensor.name} must be contiguous")
        return found.address


class BoundGpuKernel:
    """A kernel and its tensors; calling it computes into the same outputs again."""

    __slots__ = ("_gpu", "_keep", "_queue", "out")

    def __init__(
        self, gpu: Gpu, queue: Callable[[], None], out: Any, keep: tuple[Any, ...]
    ) -> None:
        self._gpu, self._queue, self._keep = gpu, queue, keep
        self.out = out
        """The output's tensor, or a tuple of all outputs."""

    def __call__(self) -> Any:
        """Queue it on the current stream; gives `out`."""
        own = self._gpu.stream
        self._gpu.stream = _current_stream()
        try:
            self._queue()
        finally:
            self._gpu.stream = own
        return self.out


@dataclass(frozen=True, slots=True)
class _Look:
    address: int
    shape: tuple[int, ...]
    dtype: str
    contiguous: bool


def _look_at(array: Any) -> _Look | None:
    """A tensor of PyTorch, or of anybody who speaks the CUDA array interface."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if array.device.type != "cuda":
            return None
        dtype = str(array.dtype).removeprefix("torch.")
        return _Look(array.data_ptr(), tuple(array.shape), dtype, bool(array.is_contiguous()))
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return None
    dtype = str(getattr(array, "dtype", ""))
    contiguous = interface.get("strides") is None
    return _Look(int(interface["data"][0]), tuple(interface["shape"]), dtype, contiguous)


def _current_stream() -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)
