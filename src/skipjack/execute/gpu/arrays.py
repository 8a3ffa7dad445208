"""A problem's tensors in a GPU's memory.

A set of them is one allocation; before, between and behind the tensors lie guards, zones of a
pattern that a kernel must not change. Timing goes through several sets, so that the last cache
holds nothing of a set when its turn comes again. Inputs are random; a part is drawn, and repeated
on the GPU until the arrays are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import DTYPES, Problem, Tensor
from skipjack.execute.verification import draw, storage_of
from skipjack.gpu import Gpu, GpuError
from skipjack.operations import get

# Sets of tensors: guarded for checks, and several of them for timing.

GUARD = 1 << 16
"""The least size of a guard in bytes: a row or two of what a wrong tile writes."""
ALIGNMENT = 256
_PATTERN = 0xA5
_POISON = 0xFF
"""The value of every byte: NaN in all types that we use."""
_MOST_SETS = 24
_CACHES = 3
"""The size of all sets together is this multiple of the last cache."""
_SHARE = 4
"""At most the free memory divided by this goes to sets for timing."""

Array = npt.NDArray[Any]


def dtype_of(tensor: Tensor, problem: Problem) -> str:
    """A tensor's element type by its short name."""
    return tensor.dtype or problem.dtype


def tensor_bytes(tensor: Tensor, problem: Problem) -> int:
    """The size of a tensor in bytes."""
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
        """The present content of a tensor; waits for the stream."""
        return self.raw(name).view(dtype).reshape(self.tensors[name].shape)

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor; waits for the stream."""
        self._gpu.synchronize()
        raw = np.empty(self.sizes[name], np.uint8)
        self._gpu.download(self.addresses[name], raw)
        return raw

    def copy_from(self, other: DeviceArrays) -> None:
        """Copy all tensors of another set, within the GPU."""
        for name, size in self.sizes.items():
            self._gpu.copy(self.addresses[name], other.addresses[name], size)

    def poison(self, names: Sequence[str]) -> None:
        """Fill tensors with NaN, so that elements that a kernel does not write are found."""
        for name in names:
            self._gpu.fill(self.addresses[name], _POISON, self.sizes[name])

    def restore_guards(self) -> None:
        """Write the pattern of the guards again."""
        for start, size in self._gaps:
            self._gpu.fill(self._base + start, _PATTERN, size)

    def strayed(self) -> str:
        """The tensor around which something was written; empty if none. Waits for the stream."""
        self._gpu.synchronize()
        for number, (start, size) in enumerate(self._gaps):
            raw = np.empty(size, np.uint8)
            self._gpu.download(self._base + start, raw)
            if not (raw == _PATTERN).all():
                return list(self.tensors)[max(0, number - 1)]
        return ""

    def free(self) -> None:
        """Free the memory."""
        self._gpu.free(self._base)


def _layout(sizes: Mapping[str, int], offset: int) -> tuple[dict[str, int], int]:
    """The offset of each tensor, and the size of the set."""
    places, at = {}, GUARD
    for name, size in sizes.items():
        places[name] = at + offset
        at += offset + size + GUARD
        at += -at % ALIGNMENT
    return places, at


def _gaps(places: Mapping[str, int], sizes: Mapping[str, int], end: int) -> list[tuple[int, int]]:
    """Start and size of the gaps around the tensors: one more than there are tensors."""
    starts = [0, *(places[name] + sizes[name] for name in places)]
    ends = [*places.values(), end]
    return [(start, stop - start) for start, stop in zip(starts, ends, strict=True)]


def set_count(used_bytes: int, set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """The number of sets for timing, if a call uses `used_bytes` of a set."""
    wanted = -(-_CACHES * l2_bytes // max(1, used_bytes))
    affordable = free_bytes // _SHARE // max(1, set_bytes)
    return max(1, min(wanted, affordable, _MOST_SETS))


def rotating_sets(gpu: Gpu, checked: DeviceArrays) -> list[DeviceArrays]:
    """Copies of these arrays for timing; the arrays themselves if no copy fits into memory."""
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


# Random inputs in a GPU's memory: some are drawn, and repeated there until the arrays are full.
#
# Drawing and sending hundreds of millions of numbers would take longer than a tuning. Since no
# sensible tile divides the number of drawn elements, wrong indices are found nevertheless.

DRAWN = 1_048_583
"""Most elements of an input that are drawn; a prime number."""


class Inputs:
    """The inputs of a problem, the same for the same seed.

    With `whole` all are -1, 0 or 1, so that sums are exact in any order.
    """

    def __init__(self, problem: Problem, seed: int = 0, *, whole: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self._shapes = {
            tensor.name: tensor.shape for tensor in get(problem.operation).inputs(problem)
        }
        self._drawn = {
            tensor.name: _drawn(problem, tensor, rng, whole)
            for tensor in get(problem.operation).inputs(problem)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs in the order of a call."""
        return tuple(self._drawn)

    def write(self, gpu: Gpu, arrays: DeviceArrays) -> None:
        """Fill the arrays: the drawn part is doubled until they are full."""
        for name, drawn in self._drawn.items():
            start, size = arrays.addresses[name], arrays.sizes[name]
            gpu.upload(start, drawn.view(np.uint8))
            there = drawn.nbytes
            while there < size:
                more = min(there, size - there)
                gpu.copy(start + there, start, more)
                there += more
        gpu.synchronize()

    @cached_property
    def on_host(self) -> dict[str, Array]:
        """The same arrays in the host's memory."""
        return {name: np.resize(drawn, self._shapes[name]) for name, drawn in self._drawn.items()}


def _drawn(problem: Problem, tensor: Tensor, rng: np.random.Generator, whole: bool) -> Array:
    count = min(tensor.size, DRAWN)
    if not whole:
        return draw(problem, tensor, (count,), rng)
    return rng.integers(-1, 2, count).astype(storage_of(problem, tensor))
