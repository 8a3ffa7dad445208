"""A kernel's arguments in memory: pointers to arrays, whole numbers, and services of the process.

A slot is the name of an array, a number, or a service: ``@parallel:T`` is the address of a pool of
T threads (`skipjack.native.pool`), ``@workspace:N`` a buffer of N bytes for the kernel to write,
``@scratch:NAME:N`` the same, but one buffer for all slots of that name.

What is lent is zeroed, for the sake of speed alone: kernels compute on whole vectors and panels,
also where nothing was written, and drop what comes of it. Bytes that somebody left there may be
denormal numbers, with which Intel's CPUs took 15 times as long for a convolution.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from skipjack.native.memory import aligned, unmoved

Arrays = Mapping[str, npt.NDArray[Any]]
_PAGE = 4096
_NAN = 0xFF
"""Numbers of such bytes are NaN in every format."""


def parallel_slot(threads: int) -> str:
    """The service that runs a task on several threads."""
    return f"@parallel:{threads}"


def workspace_slot(size: int) -> str:
    """The service that lends memory."""
    return f"@workspace:{size}"


def scratch_slot(name: str, size: int) -> str:
    """The service that lends memory to several stages of a kernel under one name."""
    return f"@scratch:{name}:{size}"


def workspace_bytes(slots: Sequence[str | int]) -> int:
    """How much memory a kernel with these slots borrows; a scratch buffer counts once."""
    lent = [slot for slot in slots if isinstance(slot, str) and slot.startswith("@workspace:")]
    shared = {slot for slot in slots if isinstance(slot, str) and slot.startswith("@scratch:")}
    return sum(int(slot.rpartition(":")[2]) for slot in [*lent, *shared])


class Slots:
    """The slots of one kernel on one set of arrays; keeps alive what they point to."""

    def __init__(
        self, slots: Sequence[str | int], arrays: Arrays, *, is_poisoned: bool = False
    ) -> None:
        """If `is_poisoned`, what is lent is full of NaN: a kernel must not need the zeros."""
        self._is_poisoned = is_poisoned
        self._arrays = dict(arrays)
        self._unmoved = unmoved(self._arrays.values())
        self._buffers: list[npt.NDArray[Any]] = []
        self._scratch: dict[str, npt.NDArray[Any]] = {}
        values = [self._value(slot) for slot in slots]
        self._memory = (ctypes.c_int64 * len(values))(*values)

    @property
    def address(self) -> int:
        """Where they are."""
        return ctypes.addressof(self._memory)

    @property
    def values(self) -> list[int]:
        """What they hold now."""
        return list(self._memory)

    def _value(self, slot: str | int) -> int:
        if isinstance(slot, int):
            return slot
        if slot.startswith("@workspace:"):
            self._buffers.append(self._lent(int(slot.partition(":")[2])))
            return int(self._buffers[-1].ctypes.data)
        if slot.startswith("@scratch:"):
            name, _, size = slot.rpartition(":")
            if name not in self._scratch:
                self._scratch[name] = self._lent(int(size))
            have = self._scratch[name]
            if have.nbytes != int(size):
                raise ValueError(f"{name} is asked for with {have.nbytes} and with {size} bytes")
            return int(have.ctypes.data)
        if slot.startswith("@parallel:"):
            from skipjack.native.pool import pool_for

            threads = int(slot.partition(":")[2])
            return pool_for(threads).parallel
        return int(self._arrays[slot].ctypes.data)

    def _lent(self, size: int) -> npt.NDArray[Any]:
        buffer = aligned((size,), "uint8", _PAGE, zeros=not self._is_poisoned)
        if self._is_poisoned:
            buffer.fill(_NAN)
        return buffer
