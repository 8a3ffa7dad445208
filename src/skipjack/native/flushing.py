"""Putting arrays out of a CPU's caches, line by line, down to memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

from skipjack.core.cpu_levels import AARCH64
from skipjack.native import llvm

_LINE = 64
"""Bytes between flushed addresses: no line of a cache is shorter on CPUs that kernels run on."""
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
    """Writes lines back and drops them from all levels."""

    def __init__(self, loader: llvm.Loader, target: str, level: str) -> None:
        self._loader = loader  # the code is there as long as this is
        text = _FLUSH.format(**(_ARM if level == AARCH64 else _X86), line=_LINE)
        address = loader.load(llvm.compile_object(text, target), "flush")
        self._flush: Callable[..., Any] = llvm.native(address, ctypes.c_void_p, ctypes.c_int64)

    def flush(self, arrays: Iterable[npt.NDArray[Any]]) -> None:
        """Arrays that lie in one piece each, and what else is in their first and last lines."""
        for array in arrays:
            start = array.ctypes.data
            before = start % _LINE
            self._flush(start - before, array.nbytes + before)
