"""A kernel made by ``metaschedule.py``, called from a process without TVM.

A kernel is a C function of TVM's packed convention::

    int kernel(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

with three ``DLTensor`` pointers (A, B, C) as its arguments; it returns 0 when it succeeded.

It may hand its outer loop to TVM's thread pool. `load_kernel` puts what ``meta.json`` has under
``environment`` (one thread, no binding of threads to cores) into the environment, which TVM reads
at the first such call.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core.problem import Problem
from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import read_json
from skipjack.solvers.vendor.tvm.metaschedule import FORMAT, KERNEL_NAME, META_NAME, SYMBOL

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
# depending on where its caller's stack happened to lie. The other contenders do not care (0.2 %).
# So the stack is aligned to 64 bytes and then shifted, by as much as suits the kernel best.
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
    """What ``meta.json`` says of a shape: how it was tuned, and what its kernel needs."""

    folder: Path
    meta: Mapping[str, Any]

    @property
    def error(self) -> str:
        """Why there is no kernel; empty if there is one."""
        return str(self.meta.get("error", "")).strip().partition("\n")[0]

    @property
    def given(self) -> str:
        """What TVM was given."""
        return f"MetaSchedule of TVM {self.meta['tvm']} was given {self.meta['trials']} trials"


def shape_name(problem: Problem) -> str:
    """``M_N_K``: the folder of its kernel."""
    return "_".join(map(str, problem.shape))


def read_record(folder: Path, problem: Problem) -> TvmRecord | None:
    """What is known of a problem; None if TVM has not tuned it, or another format says so."""
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
    """The address of the kernel in this process, where it stays; `SkipjackError` if it cannot."""
    path, meta = record.folder / KERNEL_NAME, record.meta
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != meta.get("sha256"):
            raise SkipjackError(f"{path} does not match the digest beside it; it was not loaded")
        for key, value in meta["environment"].items():
            if str(key).startswith("TVM_"):
                os.environ[str(key)] = str(value)
        if strange := [one for one in meta["libraries"] if not _LIBRARY.match(Path(one).name)]:
            raise SkipjackError(f"{path} names {strange[0]}, which is no library of TVM's")
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
            f"the kernel of TVM in {record.folder} cannot be loaded: {error}"
        ) from None


def call_text(problem: Problem) -> str:
    """IR of a ``@kernel`` that calls one; slots: its address, a shift of the stack, a, b, out."""
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
    """Where the function is in the first library that has it."""
    for library in libraries:
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    raise LookupError(f"no library has {name}")
