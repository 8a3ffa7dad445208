"""A tuned kernel as a Python function of arrays, its code, and the content of its pickle."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from skipjack import plugins
from skipjack.core import ABI, Problem, Value
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import (
    ALIGNMENT,
    BoundKernel,
    ForkOrder,
    LoadedCode,
    Slots,
    forks_wait_for,
    llvm,
    workspace_bytes,
)
from skipjack.runtime.local_kernels.arguments import Array, KernelArguments, Out

if TYPE_CHECKING:
    from skipjack.native import CallPlan
    from skipjack.runtime.local_kernels.gpu_kernel import GpuKernel


# Machine code with its launch data, and how a pickled kernel is found again.


@dataclass(frozen=True, slots=True)
class KernelCode:
    """What a process needs to call a kernel."""

    data: bytes = field(repr=False)
    digest: str
    symbol: str
    abi: str
    slots: tuple[str | int, ...]

    def record(self) -> dict[str, Any]:
        """Everything but the machine code itself, which is stored by its digest."""
        return {
            "digest": self.digest,
            "symbol": self.symbol,
            "abi": self.abi,
            "slots": list(self.slots),
        }


Again = tuple[Callable[..., Any], tuple[Any, ...]]
"""How a pickled kernel is found again: a function and its arguments."""


_LOOKUP = "skipjack.runtime.bank_lookup"
"""The module of the functions in pickles. It imports this one, so it is imported by name."""


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(_LOOKUP), name)
    return found


def banked_again(
    problem: Problem, device: str, user_dir: str | None = None, protocol: str | None = None
) -> Again:
    """By looking it up in a bank; in that of the settings in force there if none is named.

    The pickle names the plug-ins loaded here, only to report one that is missing there.
    """
    return _function("look_up_again"), (problem.key, device, user_dir, *_how(protocol))


def answered_again(
    problem: Problem, device: str, user_dir: str | None = None, protocol: str | None = None
) -> Again:
    """By the same lookup; another of its steps may have the answer there."""
    return _function("answer_again"), (problem.key, device, user_dir, *_how(protocol))


def named_again(
    problem: Problem,
    device: str,
    user_dir: str | None,
    protocol: str | None,
    solver: str,
    config: Mapping[str, Value] | None,
) -> Again:
    """By a lookup of the same solver and config."""
    found = problem.key, device, user_dir, plugins.loaded(), protocol
    return _function("answer_again"), (*found, solver, dict(config) if config else None)


def _how(protocol: str | None) -> tuple[object, ...]:
    """The last arguments of the functions in pickles, left out if they are the defaults."""
    return (plugins.loaded(), protocol) if protocol else named_plugins()


def named_plugins() -> tuple[tuple[str, ...], ...]:
    """The plug-ins as a last argument of the functions in pickles; left out if there are none."""
    names = plugins.loaded()
    return (names,) if names else ()


def lacking(pickled_with: tuple[str, ...]) -> str:
    """What to do about plug-ins of a pickle that are not loaded; empty if all are."""
    known = plugins.loaded()
    missing = [name for name in map(str, pickled_with) if name not in known]
    if not missing:
        return ""
    names = ", ".join(name if name.isprintable() else ascii(name) for name in missing)
    what = "plug-ins" if len(missing) > 1 else "plug-in"
    return (
        f"it was pickled with {what} {names}, not loaded here: if you trust that code, add it to "
        f"{plugins.VARIABLE}"
    )


def pickled(problem: Problem, again: Again | None) -> Again:
    """The contents of a kernel's pickle; `UsageError` if the kernel cannot be found again."""
    if again is None:
        raise UsageError(
            f"a kernel of {problem.key} that is not from a bank or a file cannot be pickled"
        )
    return again


def callable_of(
    problem: Problem, code: KernelCode, device: str, again: Again | None = None, solver: str = ""
) -> TunedKernel | GpuKernel:
    """Machine code as a function on a device of this machine: ``sm_90/132``, or ``cuda:1``."""
    from skipjack.gpu import ABI as GPU_ABI

    if code.abi == GPU_ABI:
        from skipjack.runtime.local_kernels.gpu_kernel import GpuKernel

        return GpuKernel(problem, code, device, again, solver)
    pass

    return TunedKernel(problem, code, again, solver)


# A tuned kernel as a Python function of arrays in the CPU's memory.

_MOST_WORKSPACE = 1 << 24
_FIRST_PLAIN_CALLS = 32
"""Calls of all kernels of a process before the native check is compiled, which takes as long as a
thousand calls without it (about 10 ms)."""
_plain_calls = count()
_empty, _ndarray, _BYTE = np.empty, np.ndarray, np.dtype(np.uint8)
_loaded: weakref.WeakValueDictionary[tuple[str, str], LoadedCode] = weakref.WeakValueDictionary()
_loading = Lock()
forks_wait_for(_loading, ForkOrder.LOADING)
_dropped: list[llvm.Loader] = []
"""Loaders of unreferenced code. They are freed when the next one is loaded: garbage collection may
happen at any moment."""


def load_code(code: KernelCode) -> LoadedCode:
    """The code of a kernel, loaded if necessary; freed some time after its last user."""
    key = (code.digest, code.symbol)
    with _loading:
        while _dropped:
            _dropped.pop().close()
        found = _loaded.get(key)
        if found is None:
            # One loader for each kernel: a shared one would keep some memory of each for good.
            loader = llvm.Loader()
            address = loader.load(code.data, code.symbol)
            found = _loaded[key] = LoadedCode(llvm.c_function(address, ctypes.c_void_p))
            weakref.finalize(found, _dropped.append, loader).atexit = False
        return found


def _pool_lock(slots: Sequence[str | int]) -> Lock | None:
    """The lock that a kernel holds while it runs, if it uses the thread pool."""
    if not any(str(slot).startswith("@parallel") for slot in slots):
        return None
    from skipjack.native import call_lock

    return call_lock


def _is_plannable(arguments: KernelArguments, slots: Sequence[str | int]) -> bool:
    """Whether native code can check its calls: one output, no array in two slots.

    A plan keeps its workspace, so the workspace must be small.
    """
    once = all(slots.count(name) <= 1 for name in arguments.dtypes)
    return once and len(arguments.outputs) == 1 and workspace_bytes(slots) <= _MOST_WORKSPACE


class TunedKernel:
    """Call it with the inputs in order; it returns the output, or writes into ``out=``.

    An operation with several outputs (`outputs` names them) returns a tuple. A pickle holds no
    machine code: it says where the kernel is found again.
    """

    source = ""
    """The step of the lookup that found it; empty if it is not from a lookup."""

    def __init__(
        self, problem: Problem, code: KernelCode, again: Again | None = None, solver: str = ""
    ) -> None:
        """`solver` is the name of the solver that built the code, if known."""
        if hashlib.sha256(code.data).hexdigest() != code.digest:
            raise SkipjackError("the kernel's bytes do not match their digest; it was not loaded")
        if code.abi != ABI:
            raise SkipjackError(f"launch ABI {code.abi!r} is not supported, only {ABI!r}")
        self.problem, self.solver = problem, solver
        self._again = again
        self._arguments = KernelArguments(problem)
        self._slots, self._digest = code.slots, code.digest
        for slot in code.slots:
            named = isinstance(slot, str) and not slot.startswith("@")
            if named and slot not in self._arguments.dtypes:
                raise SkipjackError(
                    f"the kernel needs an array {slot!r}, which {problem.key} does not have"
                )
        self._lock = _pool_lock(code.slots)
        self._code = load_code(code)
        self._plans: list[CallPlan] = []
        """Plans for calls that native code checks; as many as there were concurrent calls."""
        self._plannable = _is_plannable(self._arguments, code.slots)
        main = self._arguments.outputs[0]
        self._out_shape, self._out_dtype = main.shape, self._arguments.dtypes[main.name]
        self._room_bytes = main.size * self._out_dtype.itemsize + ALIGNMENT

    @property
    def address(self) -> int:
        """The address of its code, for native callers; valid as long as the kernel."""
        return ctypes.cast(self._code.function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

    @property
    def digest(self) -> str:
        """The digest of its machine code."""
        return self._digest

    @property
    def slots(self) -> tuple[str | int, ...]:
        """The arguments of its code, in order: see `skipjack.native.slots`."""
        return self._slots

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, the main one first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Array, out: Out = None) -> Any:
        """Compute. Inputs that are not contiguous are copied; dtypes and shapes must match.

        Returns the output's array, or a tuple of arrays if there are several outputs.
        """
        try:
            plan = self._plans.pop()
        except IndexError:
            plan = None
        if plan is None:  # outside of the handler: what `_call` raises has no context
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
        """Compute on arrays that Python checks; later calls may be quicker."""
        if self._plans and not isinstance(out, list | tuple | Mapping):
            arrays = (*inputs, out) if out is not None else inputs
            if not all(isinstance(array, _ndarray) for array in arrays):
                return self._call_seen(inputs, out)
        result = self._bound(inputs, out, copies=True)()
        if self._plannable and not self._plans and next(_plain_calls) >= _FIRST_PLAIN_CALLS:
            self._plan()
        return result

    def _call_seen(self, inputs: Sequence[Any], out: Any) -> Any:
        """Compute on arrays of other packages, converted to NumPy for the native check."""
        arrays, written = self._arguments.seen(inputs, out)
        made = self(*arrays, out=written)
        return self._arguments.result({self._arguments.output_names[0]: made}, inputs, out)

    def _plan(self) -> None:
        from skipjack.native import CallPlan, native_check

        check = native_check()
        if check is None:
            self._plannable = False
            return
        dtypes = self._arguments.dtypes
        arrays = (*self._arguments.inputs, *self._arguments.outputs)
        wanted = [(one.name, one.shape, dtypes[one.name]) for one in arrays]
        self._plans.append(CallPlan(check, self.address, self._slots, wanted))

    def bind(self, *inputs: Array, out: Out = None) -> BoundKernel:
        """A call on exactly these arrays, checked once: for loops over small problems.

        It reads them again at each call, so they must be contiguous.
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
