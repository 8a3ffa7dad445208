"""A tuned kernel as a Python function on NumPy arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.problem import DTYPES, Problem
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import llvm
from skipjack.native.memory import aligned
from skipjack.native.slots import Slots
from skipjack.operations import get
from skipjack.solvers.solver import ABI
from skipjack.tuning.result import KernelCode, TuneResult


@functools.cache
def _loader() -> llvm.Loader:
    """One for the process: loaded code stays valid as long as the process."""
    return llvm.Loader()


_POOL_LOCK = threading.Lock()


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
        shares = any(str(slot).startswith("@parallel") for slot in code.slots)
        self._lock = _POOL_LOCK if shares else None
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
        return self.bind(*inputs, out=out)()

    def bind(self, *inputs: npt.NDArray[Any], out: npt.NDArray[Any] | None = None) -> BoundKernel:
        """The call on these very arrays, checked once: for loops over small problems."""
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
        return BoundKernel(self._function, Slots(self._slots, arrays), out, self._lock)

    def _checked(
        self, array: npt.NDArray[Any], name: str, shape: tuple[int, ...]
    ) -> npt.NDArray[Any]:
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{name} must be a NumPy array, not {type(array).__name__}")
        if array.shape != shape or array.dtype != self._dtype:
            raise UsageError(
                f"{name} must be {self._dtype} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        return array

    def __repr__(self) -> str:
        names = ", ".join(tensor.name for tensor in self._inputs)
        return f"<TunedKernel {self.problem.key}({names})>"


class BoundKernel:
    """A kernel and its arrays; calling it computes into the same output again."""

    __slots__ = ("_address", "_function", "_lock", "_slots", "out")

    def __init__(
        self,
        function: Callable[[int], object],
        slots: Slots,
        out: npt.NDArray[Any],
        lock: contextlib.AbstractContextManager[object] | None,
    ) -> None:
        self._function, self._slots, self._address = function, slots, slots.address
        self.out, self._lock = out, lock

    def __call__(self) -> npt.NDArray[Any]:
        """Compute with what the inputs hold now."""
        if self._lock is None:
            self._function(self._address)
        else:
            with self._lock:  # a pool serves one kernel at a time
                self._function(self._address)
        return self.out
