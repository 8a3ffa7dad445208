"""The timing loop, the kernels that measure a core's peaks, and flushing arrays out of caches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import AARCH64
from skipjack.native import llvm
from skipjack.native.ir import IRWriter, VectorType, function

# The timing loop, the sentinel, and the kernels that measure a core's peaks, as LLVM IR.

_TIMER = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %high = getelementptr i8, ptr %ts, i64 8
  %ok = call i32 @clock_gettime(i32 1, ptr %ts)
  %s = load i64, ptr %ts, align 8
  %ns = load i64, ptr %high, align 8
  %scaled = mul i64 %s, 1000000000
  %sum = add i64 %scaled, %ns
  ret i64 %sum
}

define void @timer(ptr %fn, ptr %slots, i64 %calls, i64 %samples, ptr %out) nounwind {
entry:
  br label %sample
sample:
  %s = phi i64 [ 0, %entry ], [ %s2, %stop ]
  %t0 = call i64 @now()
  br label %call
call:
  %i = phi i64 [ 0, %sample ], [ %i2, %call ]
  call void %fn(ptr %slots)
  %i2 = add i64 %i, 1
  %more = icmp ult i64 %i2, %calls
  br i1 %more, label %call, label %stop
stop:
  %t1 = call i64 @now()
  %d = sub i64 %t1, %t0
  %at = getelementptr i64, ptr %out, i64 %s
  store i64 %d, ptr %at, align 8
  %s2 = add i64 %s, 1
  %again = icmp ult i64 %s2, %samples
  br i1 %again, label %sample, label %done
done:
  ret void
}
"""

SENTINEL_ROUNDS = 1500
_CHAINS = 12


def arithmetic_kernel(vector: VectorType, rounds: int) -> str:
    """Independent chains of fused multiply-adds in registers, to measure a core's peak."""
    w = IRWriter()
    start = [(vector.text, vector.constant(1.0 + chain)) for chain in range(_CHAINS)]
    factor, term = vector.constant(0.5), vector.constant(0.25)

    def body(_: str, values: list[str]) -> list[str]:
        return [w.call(vector, "fmuladd", [value, factor, term]) for value in values]

    results = w.loop(rounds, start, body)
    out = w.value("load ptr, ptr %slots, align 8")
    for chain, value in enumerate(results):
        w.store(vector, value, w.advance(out, chain * vector.lanes * vector.item_bytes))
    w.emit("ret void")
    text = function(w, "void @kernel(ptr %slots)", 8 * vector.lanes * vector.item_bytes)
    return "\n".join([*w.declarations, text])


def arithmetic_flops(vector: VectorType, rounds: int) -> int:
    """The operations of one call of `arithmetic_kernel`."""
    return 2 * _CHAINS * vector.lanes * rounds


def stream_kernel(vector: VectorType, copies: int) -> str:
    """``out[i] = x[i] + y[i]``, several vectors at a time; slots: x, y, out, iterations."""
    w = IRWriter()
    width = vector.lanes * vector.item_bytes
    x, y, out = (
        w.value(f"load ptr, ptr {w.advance('%slots', 8 * slot)}, align 8") for slot in range(3)
    )
    rounds = w.value(f"load i64, ptr {w.advance('%slots', 24)}, align 8")

    def body(_: str, at: list[str]) -> list[str]:
        for part in range(copies):
            left, right = (w.load(vector, w.advance(p, part * width)) for p in at[:2])
            total = w.value(f"fadd {vector.text} {left}, {right}")
            w.store(vector, total, w.advance(at[2], part * width))
        return [w.advance(p, copies * width) for p in at]

    w.loop(rounds, [("ptr", p) for p in (x, y, out)], body)
    w.emit("ret void")
    return function(w, "void @kernel(ptr %slots)", 8 * width)


def read_kernel(vector: VectorType, copies: int) -> str:
    """The sum of an array, several vectors at a time; slots: x, out, iterations."""
    w = IRWriter()
    width = vector.lanes * vector.item_bytes
    x, out = (
        w.value(f"load ptr, ptr {w.advance('%slots', 8 * slot)}, align 8") for slot in range(2)
    )
    rounds = w.value(f"load i64, ptr {w.advance('%slots', 16)}, align 8")

    def body(_: str, state: list[str]) -> list[str]:
        at, *sums = state
        loaded = [w.load(vector, w.advance(at, part * width)) for part in range(copies)]
        added = [
            w.value(f"fadd {vector.text} {total}, {value}")
            for total, value in zip(sums, loaded, strict=True)
        ]
        return [w.advance(at, copies * width), *added]

    zeros = [(vector.text, vector.constant(0.0))] * copies
    _, *sums = w.loop(rounds, [("ptr", x), *zeros], body)
    for part, total in enumerate(sums):
        w.store(vector, total, w.advance(out, part * width))
    w.emit("ret void")
    return function(w, "void @kernel(ptr %slots)", 8 * width)


class NativeTimer:
    """Times calls of ``void fn(ptr slots)`` without Python in between."""

    def __init__(self, loader: llvm.Loader, target: str) -> None:
        address = loader.load(llvm.compile_object(_TIMER, target), "timer")
        self._timer: Callable[..., Any] = llvm.c_function(
            address,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_void_p,
        )

    def sample(
        self, function_: int, slots: int, calls: int, samples: int
    ) -> npt.NDArray[np.float64]:
        """Nanoseconds for each call, one number for each sample."""
        out = np.empty(samples, np.int64)
        self._timer(function_, slots, calls, samples, out.ctypes.data)
        return out / calls


# Flushing arrays from a CPU's caches to memory, line by line.

_LINE = 64
"""Bytes between flushed addresses; no supported CPU has shorter cache lines."""
_FLUSH = """
{declared}
define void @flush(ptr %start, i64 %bytes) nounwind {{
entry:
  br label %line
line:
  %at = phi i64 [ 0, %entry ], [ %next, %line ]
  %place = getelementptr i8, ptr %start, i64 %at
  {evict}
  %next = add i64 %at, {line}
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %line, label %done
done:
  {wait}
  ret void
}}
"""
_X86 = {
    "declared": "declare void @llvm.x86.sse2.clflush(ptr)",
    "evict": "call void @llvm.x86.sse2.clflush(ptr %place)",
    "wait": "fence seq_cst",
}
_ARM = {
    "declared": "",
    "evict": 'call void asm sideeffect "dc civac, $0", "r,~{memory}"(ptr %place)',
    "wait": 'call void asm sideeffect "dsb ish", "~{memory}"()',
}


class CacheFlusher:
    """Writes cache lines back and evicts them from all levels."""

    def __init__(self, loader: llvm.Loader, target: str, level: str) -> None:
        self._loader = loader  # keeps the code loaded
        text = _FLUSH.format(**(_ARM if level == AARCH64 else _X86), line=_LINE)
        address = loader.load(llvm.compile_object(text, target), "flush")
        self._flush: Callable[..., Any] = llvm.c_function(address, ctypes.c_void_p, ctypes.c_int64)

    def flush(self, arrays: Iterable[npt.NDArray[Any]]) -> None:
        """Flush contiguous arrays, including the rest of their first and last lines."""
        for array in arrays:
            start = array.ctypes.data
            before = start % _LINE
            self._flush(start - before, array.nbytes + before)
