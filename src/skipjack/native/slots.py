"""A kernel's arguments in memory: pointers to arrays, integers, and services of the process."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from skipjack.errors import UsageError
from skipjack.native.memory import aligned, keep_in_place

# A kernel's arguments in memory: pointers to arrays, integers, and services of the process.
#
# A slot is the name of an array, a number, or a service: ``@parallel:T`` is the address of a pool
# of T threads (`skipjack.native.pool`), ``@workspace:N`` a buffer of N bytes for the kernel to
# write, ``@scratch:NAME:N`` the same, with one buffer for all slots of that name.
#
# Buffers are zeroed for speed only: kernels compute on whole vectors and panels, including elements
# that were not written, and discard those results. Old bytes may be denormal numbers, with which a
# convolution took 15 times as long on Intel's CPUs.

Arrays = Mapping[str, npt.NDArray[Any]]
_PAGE = 4096
_NAN = 0xFF
"""Numbers made of such bytes are NaN in every format."""


def parallel_slot(threads: int) -> str:
    """The slot of the service that runs a task on several threads."""
    return f"@parallel:{threads}"


def workspace_slot(size: int) -> str:
    """The slot of a workspace buffer."""
    return f"@workspace:{size}"


def scratch_slot(name: str, size: int) -> str:
    """The slot of a buffer that several stages of a kernel share by name."""
    return f"@scratch:{name}:{size}"


def workspace_bytes(slots: Sequence[str | int]) -> int:
    """The memory that a kernel with these slots needs; a scratch buffer counts once."""
    workspaces = [
        slot for slot in slots if isinstance(slot, str) and slot.startswith("@workspace:")
    ]
    shared = {slot for slot in slots if isinstance(slot, str) and slot.startswith("@scratch:")}
    return sum(int(slot.rpartition(":")[2]) for slot in [*workspaces, *shared])


class Slots:
    """The slots of a kernel for a set of arrays, which it keeps alive."""

    def __init__(
        self, slots: Sequence[str | int], arrays: Arrays, *, is_poisoned: bool = False
    ) -> None:
        """If `is_poisoned`, buffers are filled with NaN: a kernel must not need the zeros."""
        self._is_poisoned = is_poisoned
        self._arrays = dict(arrays)
        self._unmoved = keep_in_place(self._arrays.values())
        self._buffers: list[npt.NDArray[Any]] = []
        self._scratch: dict[str, npt.NDArray[Any]] = {}
        values = [self._value(slot) for slot in slots]
        self._memory = (ctypes.c_int64 * len(values))(*values)

    @property
    def address(self) -> int:
        """The address of the slots."""
        return ctypes.addressof(self._memory)

    @property
    def values(self) -> list[int]:
        """The current values of the slots."""
        return list(self._memory)

    def _value(self, slot: str | int) -> int:
        if isinstance(slot, int):
            return slot
        if slot.startswith("@workspace:"):
            self._buffers.append(self._new_buffer(int(slot.partition(":")[2])))
            return int(self._buffers[-1].ctypes.data)
        if slot.startswith("@scratch:"):
            name, _, size = slot.rpartition(":")
            if name not in self._scratch:
                self._scratch[name] = self._new_buffer(int(size))
            have = self._scratch[name]
            if have.nbytes != int(size):
                raise ValueError(f"{name} is requested with {have.nbytes} and with {size} bytes")
            return int(have.ctypes.data)
        if slot.startswith("@parallel:"):
            from skipjack.native.pool import pool_for

            threads = int(slot.partition(":")[2])
            return pool_for(threads).parallel
        return int(self._arrays[slot].ctypes.data)

    def _new_buffer(self, size: int) -> npt.NDArray[Any]:
        buffer = aligned((size,), "uint8", _PAGE, zeros=not self._is_poisoned)
        if self._is_poisoned:
            buffer.fill(_NAN)
        return buffer


# A kernel bound to arrays that were checked before: the cheapest call from Python.

Array = npt.NDArray[Any]


class LoadedCode:
    """Machine code loaded into this process, shared by all kernels that are made from it."""

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[[int], object]) -> None:
        self.function = function


class BoundKernel:
    """A kernel and its arrays; each call computes the same outputs again."""

    __slots__ = ("_address", "_code", "_function", "_lock", "_slots", "out")

    def __init__(
        self,
        code: LoadedCode,
        slots: Slots,
        out: Array | tuple[Array, ...],
        lock: contextlib.AbstractContextManager[object] | None,
    ) -> None:
        self._code, self._function = code, code.function
        self._slots, self._address = slots, slots.address
        self.out, self._lock = out, lock
        """The output, or a tuple of all outputs."""

    def __reduce__(self) -> str:
        raise UsageError(
            "a bound kernel belongs to its arrays in this process and cannot be pickled; pickle "
            "the kernel, and bind it where it is used"
        )

    @property
    def slots_address(self) -> int:
        """The address of the kernel's arguments; valid while this object lives."""
        return self._address

    def __call__(self) -> Any:
        """Compute with the current values of the inputs, and return `out`."""
        if self._lock is None:
            self._function(self._address)
        else:
            with self._lock:  # a pool runs one kernel at a time
                self._function(self._address)
        return self.out
