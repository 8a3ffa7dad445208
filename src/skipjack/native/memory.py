"""Arrays for native code: aligned for timing, followed by guard pages for checking."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
ALIGNMENT = 64
"""New arrays are aligned to this many bytes."""
_CANARY = 0xA5
_GUARD = 64 * PAGE
"""Inaccessible bytes after an array; they take address space, but no memory."""
_PROT_NONE = 0


def aligned(
    shape: tuple[int, ...], dtype: npt.DTypeLike, alignment: int = ALIGNMENT, *, zeros: bool = False
) -> npt.NDArray[Any]:
    """An array aligned to `alignment` bytes; its values are undefined unless `zeros` is set."""
    bytes_ = prod(shape) * np.dtype(dtype).itemsize
    room = (np.zeros if zeros else np.empty)(bytes_ + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + bytes_].view(dtype).reshape(shape)


def keep_in_place(arrays: Iterable[npt.NDArray[Any]]) -> object:
    """An object that prevents `resize` from moving arrays as long as it lives.

    Addresses of the arrays may then be passed on. NumPy's `resize` with ``refcheck=False`` frees
    their memory even if others refer to it, but not if there are weak references.
    """
    return [weakref.ref(array) for array in arrays]


def return_free_memory() -> None:
    """Return free memory to the system, if the C library supports that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class GuardedArray:
    """An array that ends directly before inaccessible pages.

    Reading or writing past its end ends the process at once. The bytes between the array and the
    guard pages (less than the alignment, plus `gap`) and a page before the array hold a canary that
    `intact` checks.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, alignment: int = 64, gap: int = 0
    ) -> None:
        bytes_ = prod(shape) * np.dtype(dtype).itemsize
        padded = -(-bytes_ // alignment) * alignment + gap
        pages = -(-padded // PAGE)
        self._map = mmap.mmap(-1, (pages + 1) * PAGE + _GUARD)
        whole = np.frombuffer(self._map, np.uint8)
        end = (pages + 1) * PAGE
        start = end - padded
        self._front = whole[start - PAGE : start] if start >= PAGE else whole[:start]
        self._slack = whole[start + bytes_ : end]
        self.restore()
        self.array: npt.NDArray[Any] = whole[start : start + bytes_].view(dtype).reshape(shape)
        self._forbid(whole.ctypes.data + end)

    def _forbid(self, address: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(_GUARD), _PROT_NONE)
        if failed:
            raise OSError(ctypes.get_errno(), "mprotect failed for a guard page")

    def restore(self) -> None:
        """Write the canary again, so that one kernel's fault is not attributed to the next."""
        self._front[:] = _CANARY
        self._slack[:] = _CANARY

    def intact(self) -> bool:
        """Whether nothing was written before or after the array."""
        return bool((self._front == _CANARY).all() and (self._slack == _CANARY).all())


def poison(array: npt.NDArray[Any]) -> None:
    """Fill with NaN, so that elements that a kernel does not write are detected."""
    array.fill(np.nan)
