"""A tuned kernel as a Python function of arrays in the CPU's memory."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from skipjack.core.device import ABI
from skipjack.core.problem import Problem
from skipjack.errors import SkipjackError
from skipjack.native import llvm
from skipjack.native.bound import BoundKernel, LoadedCode
from skipjack.native.forks import ForkOrder, forks_wait_for
from skipjack.native.memory import ALIGNMENT
from skipjack.native.slots import Slots, workspace_bytes
from skipjack.runtime.arguments import Array, KernelArguments, Out
from skipjack.runtime.kernel_code import Again, KernelCode, pickled

if TYPE_CHECKING:
    from skipjack.native.checked_call import CallPlan

_MOST_WORKSPACE = 1 << 24
_FIRST_PLAIN_CALLS = 32
"""Of all kernels of a process, before the native check is made: that takes as long as a thousand
calls that do without (some 10 ms)."""
_plain_calls = count()
_empty, _ndarray, _BYTE = np.empty, np.ndarray, np.dtype(np.uint8)
_loaded: weakref.WeakValueDictionary[tuple[str, str], LoadedCode] = weakref.WeakValueDictionary()
_loading = Lock()
forks_wait_for(_loading, ForkOrder.LOADING)
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


def _pool_lock(slots: Sequence[str | int]) -> Lock | None:
    """What a kernel holds while it runs, if it uses a pool of threads."""
    if not any(str(slot).startswith("@parallel") for slot in slots):
        return None
    from skipjack.native.pool import calls

    return calls


def _is_plannable(arguments: KernelArguments, slots: Sequence[str | int]) -> bool:
    """Whether its calls can be checked by native code: one output, no array in two slots.

    A plan keeps its workspace, so that there must not be much of it.
    """
    once = all(slots.count(name) <= 1 for name in arguments.dtypes)
    return once and len(arguments.outputs) == 1 and workspace_bytes(slots) <= _MOST_WORKSPACE


class TunedKernel:
    """Call it with the inputs in order; it gives the output, or writes into ``out=``.

    An operation with several outputs (`outputs` names them) gives a tuple of them. A pickle of it
    holds no machine code: it says where the kernel is found again.
    """

    source = ""
    """What answered the lookup that gave it; empty if it is of none."""

    def __init__(
        self, problem: Problem, code: KernelCode, again: Again | None = None, solver: str = ""
    ) -> None:
        """`solver` is the name of what built the code, where that is known."""
        if hashlib.sha256(code.data).hexdigest() != code.digest:
            raise SkipjackError("the kernel's bytes do not match their digest; it was not loaded")
        if code.abi != ABI:
            raise SkipjackError(f"launch ABI {code.abi!r} is not known here, only {ABI!r}")
        self.problem, self.solver = problem, solver
        self._again = again
        self._arguments = KernelArguments(problem)
        self._slots, self._digest = code.slots, code.digest
        for slot in code.slots:
            named = isinstance(slot, str) and not slot.startswith("@")
            if named and slot not in self._arguments.dtypes:
                raise SkipjackError(f"the kernel wants an array {slot!r}: {problem.key} has none")
        self._lock = _pool_lock(code.slots)
        self._code = load_code(code)
        self._plans: list[CallPlan] = []
        """For calls whose arrays native code checks; as many as there were calls at a time."""
        self._plannable = _is_plannable(self._arguments, code.slots)
        main = self._arguments.outputs[0]
        self._out_shape, self._out_dtype = main.shape, self._arguments.dtypes[main.name]
        self._room_bytes = main.size * self._out_dtype.itemsize + ALIGNMENT

    @property
    def address(self) -> int:
        """Where its code is in this process, for callers from native code; valid as long as it."""
        return ctypes.cast(self._code.function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

    @property
    def digest(self) -> str:
        """Of its machine code."""
        return self._digest

    @property
    def slots(self) -> tuple[str | int, ...]:
        """What its code takes, in order: see `skipjack.native.slots`."""
        return self._slots

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is written, the main output first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Array, out: Out = None) -> Any:
        """Compute. Inputs that are not contiguous are copied; dtypes and shapes must match.

        Gives the output's array, or a tuple of arrays where there are several outputs.
        """
        try:
            plan = self._plans.pop()
        except IndexError:
            return self._call(inputs, out)
        made = out is None
        given: Any = (inputs, _empty(self._room_bytes, _BYTE), True) if made else (inputs, out)
        if self._lock is None:
            start = plan.call(*given)
        else:
            with self._lock:  # a pool serves one kernel at a time
                start = plan.call(*given)
        self._plans.append(plan)
        if start < 0:
            return self._call(inputs, out)
        return _ndarray(self._out_shape, self._out_dtype, given[1], start) if made else out

    def _call(self, inputs: Sequence[Array], out: Out) -> Any:
        """Compute, with arrays that Python checks; later calls may be quicker."""
        if self._plans and not isinstance(out, list | tuple | Mapping):
            arrays = (*inputs, out) if out is not None else inputs
            if not all(isinstance(array, _ndarray) for array in arrays):
                return self._call_seen(inputs, out)
        result = self._bound(inputs, out, copies=True)()
        if self._plannable and not self._plans and next(_plain_calls) >= _FIRST_PLAIN_CALLS:
            self._plan()
        return result

    def _call_seen(self, inputs: Sequence[Any], out: Any) -> Any:
        """Compute with arrays of others, which native code checks once NumPy sees them."""
        arrays, written = self._arguments.seen(inputs, out)
        made = self(*arrays, out=written)
        return self._arguments.result({self._arguments.output_names[0]: made}, inputs, out)

    def _plan(self) -> None:
        from skipjack.native.checked_call import CallPlan, native_check

        check = native_check()
        if check is None:
            self._plannable = False
            return
        dtypes = self._arguments.dtypes
        arrays = (*self._arguments.inputs, *self._arguments.outputs)
        wanted = [(one.name, one.shape, dtypes[one.name]) for one in arrays]
        self._plans.append(CallPlan(check, self.address, self._slots, wanted))

    def bind(self, *inputs: Array, out: Out = None) -> BoundKernel:
        """The call on these very arrays, checked once: for loops over small problems.

        It reads them anew each time, so that they must be contiguous.
        """
        return self._bound(inputs, out, copies=False)

    def _bound(self, inputs: Sequence[Array], out: Out, copies: bool) -> BoundKernel:
        arrays = self._arguments.arrays(inputs, out, copies)
        result = self._arguments.result(arrays, inputs, out)
        return BoundKernel(self._code, Slots(self._slots, arrays), result, self._lock)

    def __reduce__(self) -> Again:
        return pickled(self.problem, self._again)

    def __repr__(self) -> str:
        names = ", ".join(tensor.name for tensor in self._arguments.inputs)
        return f"<TunedKernel {self.problem.key}({names})>"
