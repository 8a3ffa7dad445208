"""A kernel's call from Python in one step: native code checks and passes the arrays.

Checking two arrays in Python takes longer than many kernels. Here a few instructions compare the
fields of each array in NumPy's C interface (data, dimensions, dtype, flags) with what the kernel
requires, store the addresses in the kernel's slots and call it. Arrays that do not match exactly
are rejected without a call and checked again in Python: they may be acceptable (an array that must
be copied) or wrong (which raises an error).

It is a function of CPython's C interface, like those of extension modules: a call through ctypes
would take another half of a microsecond. The kernel runs without the GIL.

The layout is that of ``PyArrayObject``, ``PyTupleObject`` and ``PyBytesObject`` on 64-bit CPython,
on which inline functions of NumPy and Python rely, too. `native_check` tests it before it is used.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.native import cpu, llvm
from skipjack.native.memory import ALIGNMENT
from skipjack.native.slots import Slots

log = logging.getLogger(__name__)

# A plan: kernel, number of inputs, the type of arrays, slots, services, an unused word; then, for
# each input and the output, its dtype, number of dimensions, dimensions, slot and size in bytes.
# Services: the functions that release and acquire the GIL, Py_IncRef; then the result objects.
_HEAD, _RECORD = 6, 5
_RESULTS = range(-1, ALIGNMENT)
"""The results of a call. CPython keeps one immortal object for each of these integers."""
_BYTES_BEGIN = bytes.__basicsize__ - 1
"""The offset of the content of a bytes object, which holds the address of a plan."""
_FAST_CALL = 0x80
"""``METH_FASTCALL``: the function takes an array of arguments."""
_READ, _WRITTEN = 0x101, 0x501
"""NumPy's flags: C-contiguous and aligned; for outputs also writeable."""

_TEXT = """
define void @nothing(ptr %slots) nounwind {
entry:
  ret void
}

define internal i1 @fits(ptr %array, ptr %record, ptr %type, i32 %flags) nounwind {
entry:
  %at_type = getelementptr i8, ptr %array, i64 8
  %own_type = load ptr, ptr %at_type, align 8
  %is_array = icmp eq ptr %own_type, %type
  br i1 %is_array, label %look, label %no
look:
  %at_dtype = getelementptr i8, ptr %array, i64 56
  %dtype = load ptr, ptr %at_dtype, align 8
  %wanted = load ptr, ptr %record, align 8
  %same_dtype = icmp eq ptr %dtype, %wanted
  %at_flags = getelementptr i8, ptr %array, i64 64
  %own_flags = load i32, ptr %at_flags, align 4
  %needed = and i32 %own_flags, %flags
  %has_flags = icmp eq i32 %needed, %flags
  %at_rank = getelementptr i8, ptr %array, i64 24
  %rank = load i32, ptr %at_rank, align 4
  %rank64 = sext i32 %rank to i64
  %at_wanted_rank = getelementptr i64, ptr %record, i64 1
  %wanted_rank = load i64, ptr %at_wanted_rank, align 8
  %same_rank = icmp eq i64 %rank64, %wanted_rank
  %both = and i1 %same_dtype, %has_flags
  %all = and i1 %both, %same_rank
  br i1 %all, label %shape, label %no
shape:
  %at_dims = getelementptr i8, ptr %array, i64 32
  %dims = load ptr, ptr %at_dims, align 8
  %at_wanted_dims = getelementptr i64, ptr %record, i64 2
  %wanted_dims = load ptr, ptr %at_wanted_dims, align 8
  br label %axis
axis:
  %i = phi i64 [ 0, %shape ], [ %next, %compare ]
  %done = icmp eq i64 %i, %wanted_rank
  br i1 %done, label %yes, label %compare
compare:
  %at_dim = getelementptr i64, ptr %dims, i64 %i
  %dim = load i64, ptr %at_dim, align 8
  %at_wanted_dim = getelementptr i64, ptr %wanted_dims, i64 %i
  %wanted_dim = load i64, ptr %at_wanted_dim, align 8
  %same_dim = icmp eq i64 %dim, %wanted_dim
  %next = add i64 %i, 1
  br i1 %same_dim, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @place(i64 %address, ptr %record, ptr %slots) nounwind {
entry:
  %at_slot = getelementptr i64, ptr %record, i64 3
  %slot = load i64, ptr %at_slot, align 8
  %at = getelementptr i64, ptr %slots, i64 %slot
  store i64 %address, ptr %at, align 8
  ret void
}

define internal i64 @data(ptr %array) nounwind {
entry:
  %at = getelementptr i8, ptr %array, i64 16
  %address = load i64, ptr %at, align 8
  ret i64 %address
}

define internal i64 @bytes(ptr %record) nounwind {
entry:
  %at = getelementptr i64, ptr %record, i64 4
  %size = load i64, ptr %at, align 8
  ret i64 %size
}

define internal void @run(ptr %plan) nounwind uwtable {
entry:
  %kernel = load ptr, ptr %plan, align 8
  %at_slots = getelementptr i64, ptr %plan, i64 3
  %slots = load ptr, ptr %at_slots, align 8
  %at_services = getelementptr i64, ptr %plan, i64 4
  %services = load ptr, ptr %at_services, align 8
  %release = load ptr, ptr %services, align 8
  %at_acquire = getelementptr ptr, ptr %services, i64 1
  %acquire = load ptr, ptr %at_acquire, align 8
  %thread = call ptr %release()
  call void %kernel(ptr %slots)
  call void %acquire(ptr %thread)
  ret void
}

define ptr @checked_call(ptr %self, ptr %arguments, i64 %count) nounwind uwtable {
entry:
  %at_plan = getelementptr i8, ptr %self, i64 BYTES
  %plan = load ptr, ptr %at_plan, align 8
  %at_services = getelementptr i64, ptr %plan, i64 4
  %services = load ptr, ptr %at_services, align 8
  %inputs = load ptr, ptr %arguments, align 8
  %at_out = getelementptr ptr, ptr %arguments, i64 1
  %out = load ptr, ptr %at_out, align 8
  %made = icmp eq i64 %count, 3
  %start = call i64 @check(ptr %plan, ptr %inputs, ptr %out, i1 %made)
  %place = add i64 %start, 4
  %at_result = getelementptr ptr, ptr %services, i64 %place
  %result = load ptr, ptr %at_result, align 8
  %at_count = getelementptr ptr, ptr %services, i64 2
  %count_reference = load ptr, ptr %at_count, align 8
  call void %count_reference(ptr %result)
  ret ptr %result
}

define internal i64 @check(ptr %plan, ptr %inputs, ptr %out, i1 %made) nounwind uwtable {
entry:
  %at_count = getelementptr i64, ptr %plan, i64 1
  %count = load i64, ptr %at_count, align 8
  %at_type = getelementptr i64, ptr %plan, i64 2
  %type = load ptr, ptr %at_type, align 8
  %at_slots = getelementptr i64, ptr %plan, i64 3
  %slots = load ptr, ptr %at_slots, align 8
  %at_size = getelementptr i8, ptr %inputs, i64 16
  %size = load i64, ptr %at_size, align 8
  %items = getelementptr i8, ptr %inputs, i64 24
  %as_many = icmp eq i64 %size, %count
  br i1 %as_many, label %input, label %refuse
input:
  %i = phi i64 [ 0, %entry ], [ %i_next, %accept ]
  %i_words = mul i64 %i, RECORD
  %i_place = add i64 %i_words, HEAD
  %record = getelementptr i64, ptr %plan, i64 %i_place
  %all = icmp eq i64 %i, %count
  br i1 %all, label %output, label %check
check:
  %at_item = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %at_item, align 8
  %good = call i1 @fits(ptr %item, ptr %record, ptr %type, i32 READ)
  br i1 %good, label %accept, label %refuse
accept:
  %address = call i64 @data(ptr %item)
  call void @place(i64 %address, ptr %record, ptr %slots)
  %i_next = add i64 %i, 1
  br label %input
output:
  br i1 %made, label %align, label %given
align:
  %start = call i64 @data(ptr %out)
  %beyond = add i64 %start, 63
  %rounded = and i64 %beyond, -64
  %offset = sub i64 %rounded, %start
  call void @place(i64 %rounded, ptr %record, ptr %slots)
  call void @run(ptr %plan)
  ret i64 %offset
given:
  %good_out = call i1 @fits(ptr %out, ptr %record, ptr %type, i32 WRITTEN)
  br i1 %good_out, label %bounds, label %refuse
bounds:
  %first = call i64 @data(ptr %out)
  %out_bytes = call i64 @bytes(ptr %record)
  %last = add i64 %first, %out_bytes
  br label %other
other:
  %j = phi i64 [ 0, %bounds ], [ %j_next, %apart ]
  %checked = icmp eq i64 %j, %count
  br i1 %checked, label %run, label %overlap
overlap:
  %j_words = mul i64 %j, RECORD
  %j_place = add i64 %j_words, HEAD
  %j_record = getelementptr i64, ptr %plan, i64 %j_place
  %at_other = getelementptr ptr, ptr %items, i64 %j
  %other_item = load ptr, ptr %at_other, align 8
  %from = call i64 @data(ptr %other_item)
  %other_bytes = call i64 @bytes(ptr %j_record)
  %to = add i64 %from, %other_bytes
  %before = icmp ule i64 %last, %from
  %behind = icmp ule i64 %to, %first
  %clear = or i1 %before, %behind
  br i1 %clear, label %apart, label %refuse
apart:
  %j_next = add i64 %j, 1
  br label %other
run:
  call void @place(i64 %first, ptr %record, ptr %slots)
  call void @run(ptr %plan)
  ret i64 0
refuse:
  ret i64 -1
}
"""

CheckedCall = Callable[..., int]
"""Takes the inputs and the output; or the inputs, a buffer for an output, and True.

Returns -1 if an array does not match, else the offset of the output in its buffer."""


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeCheck:
    """The code of the check in this process and the Python functions it needs. Never freed."""

    def __init__(self, function: int) -> None:
        api = ctypes.pythonapi
        services = (api.PyEval_SaveThread, api.PyEval_RestoreThread, api.Py_IncRef)
        words = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in services]
        words += map(id, _RESULTS)
        self._services = (ctypes.c_int64 * len(words))(*words)
        self.services = ctypes.addressof(self._services)
        self._method = _Method(b"checked_call", function, _FAST_CALL, None)
        kind = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        self._make = kind(("PyCFunction_NewEx", api))

    def call_of(self, plan: int) -> CheckedCall:
        """The function that calls a plan, which must outlive the function."""
        own = plan.to_bytes(8, sys.byteorder)
        made: CheckedCall = self._make(ctypes.addressof(self._method), own, None)
        return made


class CallPlan:
    """What the native check needs to know about a kernel.

    A plan has its own slots, so that it serves one call at a time.
    """

    __slots__ = ("_keep", "_words", "call", "slots")

    def __init__(
        self,
        check: NativeCheck,
        kernel: int,
        slots: Sequence[str | int],
        arrays: Sequence[tuple[str, tuple[int, ...], np.dtype[Any]]],
    ) -> None:
        """`arrays` are the inputs in order, then the only output, as (name, shape, dtype)."""
        names = [name for name, _, _ in arrays]
        # An array for which the kernel has no slot is stored in an additional one.
        self.slots = Slots([0 if slot in names else slot for slot in slots] + [0], {})
        shapes = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for _, shape, _ in arrays]
        words = [kernel, len(arrays) - 1, id(np.ndarray), self.slots.address, check.services, 0]
        for (name, shape, dtype), dims in zip(arrays, shapes, strict=True):
            slot = list(slots).index(name) if name in slots else len(slots)
            words += [id(dtype), len(shape), ctypes.addressof(dims), slot]
            words += [prod(shape) * dtype.itemsize]
        self._keep = check, shapes, [dtype for _, _, dtype in arrays]
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.call = check.call_of(ctypes.addressof(self._words))


@functools.cache
def native_check() -> NativeCheck | None:
    """The check, created on first use; None if arrays have another layout."""
    cpython = sys.implementation.name == "cpython" and not hasattr(sys, "getobjects")
    if not cpython or sys.maxsize != 2**63 - 1 or "t" in sys.abiflags:
        return None
    text = _TEXT
    for word, value in (("HEAD", _HEAD), ("RECORD", _RECORD), ("BYTES", _BYTES_BEGIN)):
        text = text.replace(f" {word}\n", f" {value}\n")
    text = text.replace("i32 READ)", f"i32 {_READ})").replace("i32 WRITTEN)", f"i32 {_WRITTEN})")
    loader = llvm.Loader()
    _loaders.append(loader)
    code = llvm.compile_object(text, cpu.target_of(cpu.detect()))
    found = loader.load_several(code, ["checked_call", "nothing"])
    check = NativeCheck(found["checked_call"])
    if not _is_right(check, found["nothing"]):
        log.info("arrays have an unexpected layout: kernels check them in Python")
        return None
    return check


_loaders: list[llvm.Loader] = []
"""Their code is used until the process ends."""


def _is_right(check: NativeCheck, nothing: int) -> bool:
    """Whether it accepts arrays that match, rejects others, and finds their addresses."""
    dtype = np.dtype(np.float64)
    plan = CallPlan(check, nothing, ("x", "y"), [("x", (2, 3), dtype), ("y", (6,), dtype)])
    call, slots = plan.call, plan.slots
    x, y = np.zeros((2, 3)), np.zeros(6)
    frozen = np.zeros(6)
    frozen.flags.writeable = False
    odd: npt.NDArray[Any] = np.zeros(49, np.uint8)[1:].view(np.float64).reshape(2, 3)
    wrong: list[tuple[Any, Any]] = [
        (x[0], y),
        (x.astype(np.float32), y),
        (np.zeros((3, 2)), y),
        (np.zeros((2, 3), order="F"), y),
        (np.zeros((2, 6))[:, ::2], y),
        (x.astype(">f8"), y),
        (odd, y),
        (x.tolist(), y),
        (x, np.zeros(5)),
        (x, frozen),
        (x, x.ravel()),
    ]
    if call((x,), y) != 0 or slots.values[:2] != [x.ctypes.data, y.ctypes.data]:
        return False
    if any(call((one,), out) != -1 for one, out in wrong):
        return False
    room = np.empty(6 * 8 + ALIGNMENT, np.uint8)
    offset = call((x,), room, True)
    starts = room.ctypes.data + offset
    return 0 <= offset < ALIGNMENT and starts % ALIGNMENT == 0 and slots.values[1] == starts
