"""A tuned kernel as a Python function on NumPy arrays."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.problem import DTYPES, Problem
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import llvm
from skipjack.native.memory import aligned
from skipjack.operations import get
from skipjack.solvers.solver import ABI
from skipjack.tuning.result import KernelCode, TuneResult


@functools.cache
def _loader() -> llvm.Loader:
    """One for the process: loaded code stays valid as long as the process."""
    return llvm.Loader()


class TunedKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``."""

    def __init__(self, problem: Problem, code: KernelCode) -> None:
        if hashlib.sha256(code.data).hexdigest() != code.digest:
            raise SkipjackError("the kernel's bytes do not match their digest; it was not loaded")
        if code.abi != ABI:
            raise SkipjackError(f"launch ABI {code.abi!r} is not known here, only {ABI!r}")
        operation = get(problem.operation)
        self.problem = problem
        self._inputs, self._output = operation.inputs(problem), operation.output(problem)
        self._dtype = np.dtype(DTYPES[problem.dtype])
        self._slots = code.slots
        address = _loader().load(code.data, code.symbol)
        self._function = llvm.native(address, ctypes.c_void_p)

    @classmethod
    def of(cls, result: TuneResult) -> TunedKernel:
        """The winner of a tuning."""
        if result.code is None:
            raise SkipjackError(f"{result.problem.key} has no tuned kernel: {result.reason}")
        return cls(result.problem, result.code)

    def __call__(
        self, *inputs: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Compute. Inputs that are not contiguous are copied; dtypes and shapes must match."""
        if len(inputs) != len(self._inputs):
            raise UsageError(
                f"{self.problem.key} takes {len(self._inputs)} arrays, {len(inputs)} were given"
            )
        arrays = {
            tensor.name: np.ascontiguousarray(self._checked(array, tensor.name, tensor.shape))
            for tensor, array in zip(self._inputs, inputs, strict=True)
        }
        if out is None:
            out = aligned(self._output.shape, self._dtype.name)
        else:
            self._checked(out, "out", self._output.shape)
            if not out.flags.c_contiguous or not out.flags.writeable:
                raise UsageError("out must be contiguous and writeable")
            if any(np.may_share_memory(out, array) for array in arrays.values()):
                raise UsageError("out must not overlap an input")
        arrays[self._output.name] = out
        values = [
            arrays[slot].ctypes.data if isinstance(slot, str) else slot for slot in self._slots
        ]
        slots = (ctypes.c_int64 * len(values))(*values)
        self._function(ctypes.addressof(slots))
        return out

    def _checked(
        self, array: npt.NDArray[Any], name: str, shape: tuple[int, ...]
    ) -> npt.NDArray[Any]:
        if array.shape != shape or array.dtype != self._dtype:
            raise UsageError(
                f"{name} must be {self._dtype.name} of shape {shape}, "
                f"not {array.dtype.name} of shape {array.shape}"
            )
        return array
