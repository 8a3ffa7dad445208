"""A tuned kernel as a Python function on NumPy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import os
import weakref
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skipjack.core.device import ABI
from skipjack.core.dtypes import numpy_dtype
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import llvm
from skipjack.native.bound import BoundKernel, LoadedCode
from skipjack.native.memory import aligned
from skipjack.native.slots import Slots
from skipjack.operations import get, is_padded, outputs, tensor_dtype
from skipjack.runtime.kernel_code import Again, KernelCode, banked_again, pickled

_loaded: weakref.WeakValueDictionary[tuple[str, str], LoadedCode] = weakref.WeakValueDictionary()
_loading = Lock()
if hasattr(os, "register_at_fork"):
    # Nobody else may hold it in a forked process: there is nobody else.
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )
_dropped: list[llvm.Loader] = []
"""Of code that nobody has any more. It is freed when the next is loaded: garbage may be collected
in the middle of anything."""


def load_code(code: KernelCode) -> LoadedCode:
    """The code of a kernel, loaded if it is not here yet; freed some time after the last user."""
    key = (code.digest, code.symbol)
    with _loading:
        while _dropped:
            _dropped.pop().close()
        found = _loaded.get(key)
        if found is None:
            # A loader of its own: one that serves many keeps something of each for good.
            loader = llvm.Loader()
            address = loader.load(code.data, code.symbol)
            found = _loaded[key] = LoadedCode(llvm.native(address, ctypes.c_void_p))
            weakref.finalize(found, _dropped.append, loader).atexit = False
        return found


Array = npt.NDArray[Any]
Out = Array | Sequence[Array | None] | Mapping[str, Array] | None
"""Where to write: the main output's array; one for each output in order, with None for those to be
made; or arrays by name. What is left out is made."""


def _pool_lock(slots: Sequence[str | int]) -> Lock | None:
    """What a kernel holds while it runs, if it uses a pool of threads."""
    if not any(str(slot).startswith("@parallel") for slot in slots):
        return None
    from skipjack.native.pool import calls

    return calls


class KernelResult(Protocol):
    """What a tuning gives back, as far as a kernel needs it."""

    @property
    def problem(self) -> Problem: ...
    @property
    def device(self) -> str: ...
    @property
    def code(self) -> KernelCode | None: ...
    @property
    def reason(self) -> str: ...


class TunedKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``.

    An operation with several outputs (`outputs` names them) gives a tuple of them. A pickle of it
    holds no machine code: it says where the kernel is found again.
    """

    def __init__(self, problem: Problem, code: KernelCode, again: Again | None = None) -> None:
        if hashlib.sha256(code.data).hexdigest() != code.digest:
            raise SkipjackError("the kernel's bytes do not match their digest; it was not loaded")
        if code.abi != ABI:
            raise SkipjackError(f"launch ABI {code.abi!r} is not known here, only {ABI!r}")
        operation = get(problem.operation)
        self.problem = problem
        self._again = again
        self._inputs, self._outputs = operation.inputs(problem), outputs(problem)
        self._slots = code.slots
        arrays = {tensor.name for tensor in (*self._inputs, *self._outputs)}
        for slot in code.slots:
            if isinstance(slot, str) and not slot.startswith("@") and slot not in arrays:
                raise SkipjackError(f"the kernel wants an array {slot!r}: {problem.key} has none")
        self._lock = _pool_lock(code.slots)
        self._code = load_code(code)

    @classmethod
    def of(cls, result: KernelResult) -> TunedKernel:
        """The winner of a tuning."""
        if result.code is None:
            raise SkipjackError(f"{result.problem.key} has no tuned kernel: {result.reason}")
        return cls(result.problem, result.code, banked_again(result.problem, result.device))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is written, the main output first."""
        return tuple(tensor.name for tensor in self._outputs)

    def __call__(self, *inputs: Array, out: Out = None) -> Any:
        """Compute. Inputs that are not contiguous are copied; dtypes and shapes must match.

        Gives the output's array, or a tuple of arrays where there are several outputs.
        """
        return self._bound(inputs, out, copies=True)()

    def bind(self, *inputs: Array, out: Out = None) -> BoundKernel:
        """The call on these very arrays, checked once: for loops over small problems.

        It reads them anew each time, so that they must be contiguous.
        """
        return self._bound(inputs, out, copies=False)

    def _bound(self, inputs: Sequence[Array], out: Out, copies: bool) -> BoundKernel:
        if len(inputs) != len(self._inputs):
            raise UsageError(
                f"{self.problem.key} takes {len(self._inputs)} arrays, {len(inputs)} were given"
            )
        arrays = {
            tensor.name: self._readable(array, tensor, copies)
            for tensor, array in zip(self._inputs, inputs, strict=True)
        }
        given = self._given(out)
        for tensor in self._outputs:
            array = given.get(tensor.name)
            if array is None:
                array = aligned(tensor.shape, self._storage(tensor))
            else:
                self._check_output(array, tensor, arrays)
            arrays[tensor.name] = array
        results = tuple(arrays[name] for name in self.outputs)
        result = results if len(results) > 1 else results[0]
        return BoundKernel(self._code, Slots(self._slots, arrays), result, self._lock)

    def _readable(self, array: Array, tensor: Tensor, copies: bool) -> Array:
        """An input as a kernel needs it."""
        flags = self._checked(array, tensor).flags
        if flags.c_contiguous and flags.aligned:
            return array
        if not copies:
            raise UsageError(
                f"{tensor.name} must be contiguous and aligned to be bound, "
                "since a bound kernel reads it anew at every call; bind a copy"
            )
        return np.require(array, requirements=("C", "A"))

    def _given(self, out: Out) -> Mapping[str, Array | None]:
        """Arrays to write into, by name."""
        names = ", ".join(self.outputs)
        if isinstance(out, Mapping):
            unknown = [str(name) for name in out if name not in self.outputs]
            if unknown:
                raise UsageError(f"{self.problem.key} has no output {unknown[0]}, only {names}")
            return out
        if isinstance(out, list | tuple):
            if len(out) != len(self._outputs):
                raise UsageError(
                    f"{self.problem.key} has the outputs {names}: out= takes as many arrays, "
                    f"{len(out)} were given"
                )
            return dict(zip(self.outputs, out, strict=True))
        return {self.outputs[0]: out}  # type: ignore[dict-item]  # refused by its type if wrong

    def _check_output(self, array: Array, tensor: Tensor, others: Mapping[str, Array]) -> None:
        name = tensor.name
        self._checked(array, tensor)
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            raise UsageError(f"{name} must be contiguous, writeable and aligned to its elements")
        if any(np.may_share_memory(array, other) for other in others.values()):
            raise UsageError(f"{name} must not overlap an input or another output")

    def _storage(self, tensor: Tensor) -> np.dtype[Any]:
        return numpy_dtype(tensor_dtype(self.problem, tensor))

    def _checked(self, array: Array, tensor: Tensor) -> Array:
        name, shape, storage = tensor.name, tensor.shape, self._storage(tensor)
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{name} must be a NumPy array, not {type(array).__name__}")
        fits = array.shape == shape or is_padded(array.shape, shape, len(self._outputs[0].shape))
        if not fits or array.dtype != storage:
            raise UsageError(
                f"{name} must be {storage} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        return array

    def __reduce__(self) -> Again:
        return pickled(self.problem, self._again)

    def __repr__(self) -> str:
        names = ", ".join(tensor.name for tensor in self._inputs)
        return f"<TunedKernel {self.problem.key}({names})>"
