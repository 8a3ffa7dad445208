"""Matrix products by the kernels that TVM's MetaSchedule found."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.errors import SkipjackError
from skipjack.native import llvm
from skipjack.native.cpu import detect, target_of
from skipjack.native.memory import aligned
from skipjack.native.timer import NativeTimer
from skipjack.settings import TVM_KERNELS
from skipjack.solvers.solver import Slot, Solver
from skipjack.solvers.vendor.tvm.kernel import TvmRecord, call_text, load_kernel, read_record

KERNELS_VARIABLE = TVM_KERNELS.name
"""Names the folder of kernels: run workers load them from there."""
_SHIFTS = (64, 80, 96, 112)
_ROUNDS, _SAMPLE_NS = 8, 100_000


class TvmSolver(Solver):
    """Plain products in float32 on one thread, for which `Metaschedule` made a kernel.

    It takes part where it is named: tuning a product takes TVM half a minute and more.
    """

    name = "tvm"
    version = 1
    dtypes = ("f32",)

    def refuses(self, problem: Problem, device: Device) -> str:
        """Products without attributes on one thread, where there is a kernel."""
        if reason := self.outside(problem, device):
            return reason
        record = _record(problem)
        if record is None:
            return "TVM has not tuned it"
        return f"TVM failed on it: {record.error}" if record.error else ""

    def outside(self, problem: Problem, device: Device) -> str:
        """Why it would not be tuned with TVM; empty if it would."""
        if device.kind != "cpu" or problem.operation != "matmul" or problem.attributes:
            return "TVM is tuned for the plain matmul on CPUs"
        if problem.dtype not in self.dtypes:
            return f"TVM is tuned for f32, not for {problem.dtype}"
        return "TVM is tuned for one thread" if device.units != 1 else ""

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def thunk(self, problem: Problem) -> tuple[str, Sequence[Slot]]:
        """The call of its kernel, with the stack where that runs best."""
        record = _record(problem)
        if record is None:
            raise SkipjackError(f"TVM has not tuned {problem.key}")
        if record.error:
            raise SkipjackError(f"TVM failed on {problem.key}: {record.error}")
        function, text = load_kernel(record), call_text(problem)
        return text, [function, _best_shift(problem, function, text), "a", "b", "out"]


def _record(problem: Problem) -> TvmRecord | None:
    folder = TVM_KERNELS.text()
    return read_record(Path(folder), problem) if folder else None


def _best_shift(problem: Problem, function: int, text: str) -> int:
    """By how many bytes the stack is shifted for the shortest time."""
    m, n, k = problem.shape
    arrays = [aligned(shape, "float32") for shape in ((m, k), (k, n), (m, n))]
    for array in arrays:
        array.fill(1.0)
    addresses = [array.ctypes.data for array in arrays]
    slots = {shift: (ctypes.c_int64 * 5)(function, shift, *addresses) for shift in _SHIFTS}
    loader = llvm.Loader()
    target = target_of(detect())
    timer = NativeTimer(loader, target)
    call = loader.load(llvm.compile_object(text, target), "kernel")
    places = {shift: ctypes.addressof(memory) for shift, memory in slots.items()}
    once = min(float(timer.sample(call, place, 1, 2).min()) for place in places.values())
    calls = max(1, round(_SAMPLE_NS / max(once, 1.0)))
    times = np.array(
        [
            [float(timer.sample(call, place, calls, 1)[0]) for place in places.values()]
            for _ in range(_ROUNDS)
        ]
    )
    loader.close()
    return _SHIFTS[int(np.median(times, axis=0).argmin())]
