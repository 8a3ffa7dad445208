"""Kernels inside of a run session: native ones by address and slots, library calls from Python."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skipjack.core.operation import Arrays
from skipjack.native import llvm, pool
from skipjack.native.bound import BoundKernel, LoadedCode
from skipjack.native.slots import Slots
from skipjack.native.timer import NativeTimer
from skipjack.solvers.solver import ResultCall, Slot


class Kernel(Protocol):
    """Something that can be called on one set of arrays, and timed."""

    def call(self) -> None:
        """Run once."""
        ...

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Nanoseconds for each call."""
        ...


class NativeKernel:
    """Machine code at an address."""

    def __init__(
        self,
        address: int,
        slots: Sequence[Slot],
        arrays: Arrays,
        timer: NativeTimer,
        *,
        is_poisoned: bool = False,
    ) -> None:
        """If `is_poisoned`, its workspace is full of NaN."""
        self._address, self._timer = address, timer
        self._slots = Slots(slots, arrays, is_poisoned=is_poisoned)
        self._shares = any(str(slot).startswith("@parallel") for slot in slots)
        self._arrays = tuple(arrays.values())
        self._call = llvm.native(address, ctypes.c_void_p)

    def call(self) -> None:
        """Run once."""
        self._call(self._slots.address)

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Timed inside of native code."""
        return self._timer.sample(self._address, self._slots.address, calls, samples)

    def bound(self) -> BoundKernel:
        """As a program calls it from Python."""
        lock = pool.calls if self._shares else None
        return BoundKernel(LoadedCode(self._call), self._slots, self._arrays, lock)


class ColdKernel:
    """A kernel whose arrays are put out of the caches before each call that is timed."""

    def __init__(self, kernel: Kernel, flush: Callable[[], None]) -> None:
        self._kernel, self._flush = kernel, flush

    def call(self) -> None:
        """Run once."""
        self._kernel.call()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Each call is timed by itself, and a sample is their mean."""
        out = np.empty(samples)
        for number in range(samples):
            total = 0.0
            for _ in range(calls):
                self._flush()
                total += float(self._kernel.sample(1, 1)[0])
            out[number] = total / calls
        return out


class PythonKernel:
    """A library call as a user would make it, the interpreter's share included."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._timed = function.compute if isinstance(function, ResultCall) else function

    def call(self) -> None:
        """Run once."""
        self._function()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Timed around a plain loop."""
        function = self._timed
        out = np.empty(samples)
        for number in range(samples):
            started = time.perf_counter_ns()
            for _ in range(calls):
                function()
            out[number] = (time.perf_counter_ns() - started) / calls
        return out
