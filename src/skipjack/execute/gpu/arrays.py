"""A problem's tensors in a GPU's memory: guarded where they are checked, in sets for timing.

A set is one piece of memory. Before, between and behind the tensors lie guards, zones of a pattern
that a kernel must leave alone. Timing goes through several sets, so that the last cache holds
nothing of a set when its turn comes again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.gpu.driver import Gpu, GpuError

GUARD = 1 << 16
"""Bytes of a guard, at least: a row or two of what a wrong tile writes."""
ALIGNMENT = 256
_PATTERN = 0xA5
_POISON = 0xFF
"""In every byte: NaN in each of our types."""
_MOST_SETS = 24
_CACHES = 3
"""All sets together exceed the last cache so many times."""
_SHARE = 4
"""At most this part of the free memory goes to sets for timing."""

Array = npt.NDArray[Any]


def dtype_of(tensor: Tensor, problem: Problem) -> str:
    """A tensor's element type by its short name."""
    return tensor.dtype or problem.dtype


def tensor_bytes(tensor: Tensor, problem: Problem) -> int:
    """Of one tensor."""
    return tensor.size * DTYPES[dtype_of(tensor, problem)].bytes


class DeviceArrays:
    """One set of a problem's tensors; each starts `offset` bytes behind an aligned address."""

    def __init__(
        self, gpu: Gpu, problem: Problem, tensors: Sequence[Tensor], offset: int = 0
    ) -> None:
        self._gpu = gpu
        self.problem = problem
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.sizes = {tensor.name: tensor_bytes(tensor, problem) for tensor in tensors}
        places, self.bytes = _layout(self.sizes, offset)
        self._base = gpu.allocate(self.bytes)
        self.addresses = {name: self._base + place for name, place in places.items()}
        self._gaps = _gaps(places, self.sizes, self.bytes)
        self.restore_guards()

    def upload(self, contents: Mapping[str, Array]) -> None:
        """Fill tensors from the host."""
        for name, array in contents.items():
            flat = np.ascontiguousarray(array).reshape(-1)
            self._gpu.upload(self.addresses[name], flat.view(np.uint8))

    def download(self, name: str, dtype: np.dtype[Any]) -> Array:
        """A tensor as it is now; waits for the stream."""
        return self.raw(name).view(dtype).reshape(self.tensors[name].shape)

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """Its bytes."""
        self._gpu.synchronize()
        raw = np.empty(self.sizes[name], np.uint8)
        self._gpu.download(self.addresses[name], raw)
        return raw

    def copy_from(self, other: DeviceArrays) -> None:
        """Everything, within the GPU."""
        for name, size in self.sizes.items():
            self._gpu.copy(self.addresses[name], other.addresses[name], size)

    def poison(self, names: Sequence[str]) -> None:
        """Fill tensors with NaN, so that what a kernel forgets to write is seen."""
        for name in names:
            self._gpu.fill(self.addresses[name], _POISON, self.sizes[name])

    def restore_guards(self) -> None:
        """Write the pattern anew."""
        for start, size in self._gaps:
            self._gpu.fill(self._base + start, _PATTERN, size)

    def strayed(self) -> str:
        """Around which tensor something was written; empty if nowhere. Waits for the stream."""
        self._gpu.synchronize()
        for number, (start, size) in enumerate(self._gaps):
            raw = np.empty(size, np.uint8)
            self._gpu.download(self._base + start, raw)
            if not (raw == _PATTERN).all():
                return list(self.tensors)[max(0, number - 1)]
        return ""

    def free(self) -> None:
        """Give the memory back."""
        self._gpu.free(self._base)


def _layout(sizes: Mapping[str, int], offset: int) -> tuple[dict[str, int], int]:
    """Where each tensor starts, and how much memory all of it takes."""
    places, at = {}, GUARD
    for name, size in sizes.items():
        places[name] = at + offset
        at += offset + size + GUARD
        at += -at % ALIGNMENT
    return places, at


def _gaps(places: Mapping[str, int], sizes: Mapping[str, int], end: int) -> list[tuple[int, int]]:
    """Start and size of what lies around the tensors: one more than there are tensors."""
    starts = [0, *(places[name] + sizes[name] for name in places)]
    ends = [*places.values(), end]
    return [(start, stop - start) for start, stop in zip(starts, ends, strict=True)]


def set_count(used_bytes: int, set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """How many sets timing goes through, of which a call uses so much."""
    wanted = -(-_CACHES * l2_bytes // max(1, used_bytes))
    affordable = free_bytes // _SHARE // max(1, set_bytes)
    return max(1, min(wanted, affordable, _MOST_SETS))


def rotating_sets(gpu: Gpu, checked: DeviceArrays) -> list[DeviceArrays]:
    """Copies of these arrays for timing; the arrays themselves where memory holds no other."""
    used, l2 = sum(checked.sizes.values()), gpu.device.cache_bytes("L2")
    count = set_count(used, checked.bytes, l2, gpu.memory()[0])
    sets: list[DeviceArrays] = []
    try:
        for _ in range(count):
            sets.append(DeviceArrays(gpu, checked.problem, list(checked.tensors.values())))
            sets[-1].copy_from(checked)
    except GpuError as error:
        if not error.out_of_memory:
            raise
    return sets or [checked]
