"""A kernel on arrays that were checked before: the cheapest call from Python."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from skipjack.errors import UsageError
from skipjack.native.slots import Slots

Array = npt.NDArray[Any]


class LoadedCode:
    """Machine code in this process, once for all kernels that are made of it."""

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[[int], object]) -> None:
        self.function = function


class BoundKernel:
    """A kernel and its arrays; calling it computes into the same outputs again."""

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
        """The output's array, or a tuple of all outputs."""

    def __reduce__(self) -> str:
        raise UsageError(
            "a bound kernel belongs to its arrays in this process and cannot be pickled; pickle "
            "the kernel, and bind it where it is used"
        )

    @property
    def slots_address(self) -> int:
        """Where the kernel's arguments are, for callers from native code; valid as long as it."""
        return self._address

    def __call__(self) -> Any:
        """Compute with what the inputs hold now; gives `out`."""
        if self._lock is None:
            self._function(self._address)
        else:
            with self._lock:  # a pool serves one kernel at a time
                self._function(self._address)
        return self.out
