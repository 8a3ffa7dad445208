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
from skipjack.runtime.gpu_tensors import GpuTensor, look_at


class GpuArguments:
    """The tensors of one problem: inputs in the order of a call, then outputs."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.inputs, self.outputs = get(problem.operation).inputs(problem), outputs(problem)
        self.output_names = tuple(tensor.name for tensor in self.outputs)

    def tensors(self, inputs: Sequence[Any], out: Any) -> dict[str, Any]:
        """Tensors by name, unchecked; outputs that are not given are made."""
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{self._problem.key} takes {len(self.inputs)} tensors, {len(inputs)} were given"
            )
        arrays = (*inputs, *self._given(out, inputs))
        names = (tensor.name for tensor in (*self.inputs, *self.outputs))
        return dict(zip(names, arrays, strict=True))

    def check(self, tensors: dict[str, Any]) -> dict[str, GpuTensor]:
        """Where each lies; `UsageError` says what does not fit."""
        seen = {
            tensor.name: self._checked(tensor, tensors[tensor.name])
            for tensor in (*self.inputs, *self.outputs)
        }
        for name in self.output_names:
            if not seen[name].writable:
                raise UsageError(f"{name} is written by the kernel, but its array is read-only")
        return seen

    def result(self, tensors: dict[str, Any]) -> Any:
        """What a call gives: the output, or a tuple of several."""
        results = tuple(tensors[name] for name in self.output_names)
        return results if len(results) > 1 else results[0]

    def _given(self, out: Any, inputs: Sequence[Any]) -> list[Any]:
        given = list(out) if isinstance(out, list | tuple) else [out]
        given += [None] * (len(self.outputs) - len(given))
        if len(given) > len(self.outputs):
            names = ", ".join(self.output_names)
            raise UsageError(f"{self._problem.key} has the outputs {names} alone")
        return [
            self._empty(tensor, inputs) if array is None else array
            for tensor, array in zip(self.outputs, given, strict=True)
        ]

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


def index_of(seen: dict[str, GpuTensor], default: int) -> int:
    """The GPU that tensors are on."""
    told = {name: one.index for name, one in seen.items() if one.index is not None}
    if len(set(told.values())) > 1:
        places = ", ".join(f"{name} on GPU {index}" for name, index in told.items())
        raise UsageError(f"the tensors of a call must lie on one GPU; here is {places}")
    return next(iter(told.values()), default)
