"""Arrays where native code wants them: aligned for timing, fenced by guard pages for checking."""

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
"""Arrays that are made start on a multiple of it."""
_CANARY = 0xA5
_GUARD = 64 * PAGE
"""Bytes behind an array that nobody may touch; they take addresses, but no memory."""
_PROT_NONE = 0


def aligned(
    shape: tuple[int, ...], dtype: npt.DTypeLike, alignment: int = ALIGNMENT, *, zeros: bool = False
) -> npt.NDArray[Any]:
    """An array that starts on a multiple of `alignment` bytes; undefined unless it is `zeros`."""
    bytes_ = prod(shape) * np.dtype(dtype).itemsize
    room = (np.zeros if zeros else np.empty)(bytes_ + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + bytes_].view(dtype).reshape(shape)


def unmoved(arrays: Iterable[npt.NDArray[Any]]) -> object:
    """What keeps arrays where they are as long as it lives: their addresses may be passed on.

    NumPy's `resize` would free their memory, even where others refer to them (``refcheck=False``);
    it refuses to if there are weak references.
    """
    return [weakref.ref(array) for array in arrays]


def give_memory_back() -> None:
    """Free memory goes back to the system, where the C library can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class GuardedArray:
    """An array that ends right before pages which nobody may touch.

    Reading or writing past its end stops the process at once. The bytes between the array and the
    guard (less than an alignment, and the gap asked for) and a page in front of it hold a canary
    that `intact` checks.
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
            raise OSError(ctypes.get_errno(), "mprotect refused a guard page")

    def restore(self) -> None:
        """Write the canary anew, so that one kernel's fault is not laid on the next."""
        self._front[:] = _CANARY
        self._slack[:] = _CANARY

    def intact(self) -> bool:
        """Whether nothing was written around the array."""
        return bool((self._front == _CANARY).all() and (self._slack == _CANARY).all())


def poison(array: npt.NDArray[Any]) -> None:
    """Fill with NaN, so that what a kernel forgets to write is seen."""
    array.fill(np.nan)
