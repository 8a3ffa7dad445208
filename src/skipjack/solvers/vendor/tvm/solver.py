"""Matrix products by kernels that TVM's MetaSchedule found, called without TVM."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.core import Device, ParameterSpace, Problem
from skipjack.errors import MalformedError, SkipjackError
from skipjack.native import NativeTimer, aligned, detect, llvm, target_of
from skipjack.reading import read_json
from skipjack.settings import TVM_KERNELS
from skipjack.solvers.solver import Slot, Solver
from skipjack.solvers.vendor.tvm.metaschedule import FORMAT, KERNEL_NAME, META_NAME, SYMBOL

# A kernel made by ``metaschedule.py``, called from a process without TVM.
#
# A kernel is a C function of TVM's packed convention::
#
#     int kernel(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
#
# with three ``DLTensor`` pointers (A, B, C) as its arguments; it returns 0 when it succeeded.
#
# It may run its outer loop on TVM's thread pool. `load_kernel` sets the variables that
# ``meta.json`` lists under ``environment`` (one thread, no binding of threads to cores), which TVM
# reads at the first such call.

# A kernel has a pointer variable "__NAME" for each runtime function it calls.
# TVM's module loader fills them in; a plain dlopen leaves them null.
_CONTEXT = (
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "TVMBackendParallelBarrier",
    "TVMBackendParallelLaunch",
    "TVMFFIEnvModLookupFromImports",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIFunctionCall",
    "TVMFFIHandleInitOnce",
)

_LIBRARY = re.compile(r"libtvm[a-z_]*\.so[.0-9]*$")

# From TVM's C headers: the type index of a DLTensor pointer, the device type of a CPU, and the
# type code of a float.
_DL_TENSOR_PTR = 7
_DL_CPU = 1
_DL_FLOAT = 2

_TENSOR = """
@{name}_shape = internal constant [2 x i64] [i64 {rows}, i64 {columns}]
@{name}_strides = internal constant [2 x i64] [i64 {columns}, i64 1]
@{name} = internal global %tensor {{ ptr null, i32 {cpu}, i32 0, i32 2, i8 {code}, i8 32, i16 1,
  ptr @{name}_shape, ptr @{name}_strides, i64 0 }}"""

# Some of TVM's kernels keep vectors on the stack without aligning it: one ran at 87 or 62 GFLOP/s
# depending on the alignment of its caller's stack. Other libraries are not affected (0.2 %).
# So the stack is aligned to 64 bytes and then shifted by the offset at which the kernel is fastest.
_CALL = """
define void @kernel(ptr %slots) nounwind {{
entry:
  %base = alloca i64, align 64
  store volatile i64 0, ptr %base, align 64
  %p1 = getelementptr i8, ptr %slots, i64 8
  %shift = load i64, ptr %p1, align 8
  %room = alloca i8, i64 %shift, align 16
  store volatile i8 0, ptr %room, align 1
  %p2 = getelementptr i8, ptr %slots, i64 16
  %data_a = load ptr, ptr %p2, align 8
  store ptr %data_a, ptr @a, align 8
  %p3 = getelementptr i8, ptr %slots, i64 24
  %data_b = load ptr, ptr %p3, align 8
  store ptr %data_b, ptr @b, align 8
  %p4 = getelementptr i8, ptr %slots, i64 32
  %data_c = load ptr, ptr %p4, align 8
  store ptr %data_c, ptr @c, align 8
  %function = load ptr, ptr %slots, align 8
  %status = call i32 %function(ptr null, ptr @arguments, i32 3, ptr @result)
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class TvmRecord:
    """The ``meta.json`` of a shape: how it was tuned, and what its kernel needs."""

    folder: Path
    meta: Mapping[str, Any]

    @property
    def error(self) -> str:
        """Why there is no kernel; empty if there is one."""
        return str(self.meta.get("error", "")).strip().partition("\n")[0]

    @property
    def given(self) -> str:
        """A sentence about TVM's tuning budget."""
        return f"MetaSchedule of TVM {self.meta['tvm']} was given {self.meta['trials']} trials"


def shape_name(problem: Problem) -> str:
    """``M_N_K``: the name of the folder of its kernel."""
    return "_".join(map(str, problem.shape))


def read_record(folder: Path, problem: Problem) -> TvmRecord | None:
    """The record of a problem; None if TVM has not tuned it, or its format is unknown."""
    place = folder / shape_name(problem)
    try:
        meta = read_json((place / META_NAME).read_bytes()).plain
    except (OSError, MalformedError):
        return None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        return None
    if not {"tvm", "trials"} <= meta.keys():
        return None
    return TvmRecord(place, meta)


def load_kernel(record: TvmRecord) -> int:
    """Load the kernel for good and return its address; `SkipjackError` if that fails."""
    path, meta = record.folder / KERNEL_NAME, record.meta
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != meta.get("sha256"):
            raise SkipjackError(
                f"{path} does not match its digest in {META_NAME} and was not loaded"
            )
        for key, value in meta["environment"].items():
            if str(key).startswith("TVM_"):
                os.environ[str(key)] = str(value)
        if strange := [one for one in meta["libraries"] if not _LIBRARY.match(Path(one).name)]:
            raise SkipjackError(f"{path} names {strange[0]}, which is not a library of TVM")
        runtime = [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in meta["libraries"]]
        # Local: every kernel exports the same names.
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
        for name in _CONTEXT:
            try:
                variable = ctypes.c_void_p.in_dll(library, f"__{name}")
            except ValueError:
                continue  # this kernel does not call that function
            variable.value = _address(runtime, name)
        return _address([library], SYMBOL)
    except (OSError, LookupError, TypeError) as error:
        raise SkipjackError(
            f"the TVM kernel in {record.folder} cannot be loaded: {error}"
        ) from None


def call_text(problem: Problem) -> str:
    """IR of a ``@kernel`` that calls one; slots: its address, a stack offset, a, b, out."""
    m, n, k = problem.shape
    tensors = "".join(
        _TENSOR.format(name=name, rows=rows, columns=columns, cpu=_DL_CPU, code=_DL_FLOAT)
        for name, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n))
    )
    arguments = ", ".join(f"%any {{ i32 {_DL_TENSOR_PTR}, i32 0, ptr @{name} }}" for name in "abc")
    return (
        "%tensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }\n"
        f"%any = type {{ i32, i32, ptr }}\n{tensors}\n"
        f"@arguments = internal global [3 x %any] [{arguments}]\n"
        "@result = internal global %any zeroinitializer\n"
        f"{_CALL.format()}"
    )


def _address(libraries: Sequence[ctypes.CDLL], name: str) -> int:
    """The address of a function in the first library that has it."""
    for library in libraries:
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    raise LookupError(f"no library has {name}")


# Matrix products by kernels that TVM's MetaSchedule found.

KERNELS_VARIABLE = TVM_KERNELS.name
"""The variable with the folder of kernels, from which run workers load them."""
_SHIFTS = (64, 80, 96, 112)
_ROUNDS, _SAMPLE_NS = 8, 100_000


class TvmSolver(Solver):
    """Plain products in float32 on one thread, for which `Metaschedule` built a kernel.

    It is used only if it is named: TVM takes half a minute or more to tune a product.
    """

    name = "tvm"
    version = 1
    dtypes = ("f32",)

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but plain products on one thread for which there is a kernel."""
        if reason := self.outside(problem, device):
            return reason
        record = _record(problem)
        if record is None:
            return "TVM has not tuned it"
        return f"TVM failed on it: {record.error}" if record.error else ""

    def outside(self, problem: Problem, device: Device) -> str:
        """Why TVM is not used for a problem; empty if it is."""
        if device.kind != "cpu" or problem.operation != "matmul" or problem.attributes:
            return "TVM is tuned for the plain matmul on CPUs"
        if problem.dtype not in self.dtypes:
            return f"TVM is tuned for f32, not for {problem.dtype}"
        return "TVM is tuned for one thread" if device.units != 1 else ""

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: there is nothing to tune."""
        return ParameterSpace([])

    def thunk(self, problem: Problem) -> tuple[str, Sequence[Slot]]:
        """The call of its kernel, with the stack offset at which it is fastest."""
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
    """The stack offset in bytes with the shortest time."""
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
