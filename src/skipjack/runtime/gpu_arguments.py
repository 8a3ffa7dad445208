"""Which tensors a kernel on a GPU takes: checked against its problem, or refused in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.operations import get, outputs, tensor_dtype
from skipjack.runtime.arguments import given_outputs
from skipjack.runtime.gpu_tensors import GpuTensor, look_at


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
        """Tensors by name, unchecked; outputs that are not given are made."""
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{self._problem.key} takes {len(self.inputs)} tensors, {len(inputs)} were given"
            )
        given = given_outputs(self._problem, self.output_names, out)
        tensors = dict(zip(self.names, inputs, strict=False))
        for tensor in self.outputs:
            array = given.get(tensor.name)
            tensors[tensor.name] = self._empty(tensor, inputs) if array is None else array
        return tensors

    def check(self, tensors: dict[str, Any]) -> dict[str, GpuTensor]:
        """Where each lies; `UsageError` says what does not fit."""
        seen = {
            tensor.name: self._checked(tensor, tensors[tensor.name])
            for tensor in (*self.inputs, *self.outputs)
        }
        for name in self.output_names:
            if not seen[name].writable:
                raise UsageError(f"{name} is written by the kernel, but its array is read-only")
        self.check_apart([one.address for one in seen.values()])
        return seen

    def check_apart(self, addresses: Sequence[int]) -> None:
        """Refuse outputs, whose addresses follow those of the inputs, that lie in another tensor.

        It looks at nothing else of the tensors.
        """
        sizes = self._sizes
        for output in range(len(self.inputs), len(sizes)):
            start, end = addresses[output], addresses[output] + sizes[output]
            for other in range(output):
                if addresses[other] < end and start < addresses[other] + sizes[other]:
                    raise UsageError(
                        f"{self.names[output]} must not overlap an input or another output"
                    )

    def result(self, tensors: dict[str, Any]) -> Any:
        """What a call gives: the output, or a tuple of several."""
        results = tuple(tensors[name] for name in self.output_names)
        return results if len(results) > 1 else results[0]

    def torch_tensors(self, checked: Sequence[Any]) -> TorchTensors | None:
        """The quick check of further calls on the GPU of these; None if not all are PyTorch's."""
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
            raise UsageError(f"give {tensor.name} in out=: only tensors of PyTorch are made here")
        storage = DTYPES[tensor_dtype(self._problem, tensor)].storage
        return torch.empty(tensor.shape, dtype=getattr(torch, storage), device=inputs[0].device)

    def _checked(self, tensor: Tensor, array: Any) -> GpuTensor:
        found = look_at(array)
        if found is None:
            raise UsageError(f"{tensor.name} is not on a GPU: it is {type(array).__name__}")
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
    """Whether a call's tensors are PyTorch's, on one GPU, and just what the problem takes.

    It asks what `GpuArguments` asks, at a small part of the price, and has nothing to say: what it
    does not take is looked at again there, which may be fine or refused.
    """

    __slots__ = ("_count", "_empty", "_inputs", "_tensor", "_wanted", "device")

    def __init__(
        self, torch: Any, wanted: Sequence[tuple[Any, tuple[int, ...]]], inputs: int, device: Any
    ) -> None:
        """`wanted` are the dtypes and shapes of the inputs, then those of the outputs."""
        self._tensor, self._empty, self.device = torch.Tensor, torch.empty, device
        self._wanted, self._inputs, self._count = tuple(wanted), inputs, len(wanted)

    def __call__(self, inputs: tuple[Any, ...], out: Any) -> tuple[Any, ...] | None:
        """Inputs, then outputs, which are made if none is given; None if something differs."""
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
    """The GPU that tensors are on."""
    told = {name: one.index for name, one in seen.items() if one.index is not None}
    if len(set(told.values())) > 1:
        places = ", ".join(f"{name} on GPU {index}" for name, index in told.items())
        raise UsageError(f"the tensors of a call must lie on one GPU; here is {places}")
    return next(iter(told.values()), default)
