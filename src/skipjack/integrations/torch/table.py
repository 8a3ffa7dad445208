"""The table that native stubs read, in plain memory: what is done with which calls.

Entries are added and changed by Python alone, one thread at a time; stubs of any thread read them
meanwhile. Nothing is ever freed: a thread may be about to use it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.integrations.torch.stubs import (
    ASKS,
    ENTRY_HEAD,
    MOST_PLACES,
    MOST_SLOTS,
    OURS,
    RAISES,
    TORCH,
)

_STATE_WORDS = 8
_TABLE, _MASK, _CLOSED, _ARENA, _ARENA_BYTES, _BUSY, _UNSEEN, _CALLBACK = range(_STATE_WORDS)
_KIND, _OUR_CALLS, _TORCH_CALLS, _PLAN, _MESSAGE, _COUNT = range(1, ENTRY_HEAD)
CAPACITY = 1 << 14
UNDEFINED = -1
"""As a dtype: a result that is not asked for, which is no tensor (None in Python)."""


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """A tensor that is made for a result."""

    result: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int
    """PyTorch's number of it, or `UNDEFINED`."""
    device_type: int = 0
    device_index: int = 0


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Where an array of a kernel is."""

    kind: int
    index: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A kernel with its slots; some of them are bound to places by number."""

    kernel: int
    values: tuple[int, ...]
    binds: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NativePlan:
    """What is done instead of PyTorch's kernel."""

    outputs: tuple[PlanOutput, ...]
    places: tuple[PlanPlace, ...]
    steps: tuple[PlanStep, ...]
    arena_bytes: int = 0
    left_to_torch: int = 0
    """A bit for each result that PyTorch's kernel computes."""
    device: int = 0
    """The device's type times 256, and its number; 0 is the CPU."""
    keep: tuple[object, ...] = ()
    """What must stay alive: the kernels."""

    @property
    def fits(self) -> bool:
        """Whether stubs have room for it."""
        slots = max((len(step.values) for step in self.steps), default=0)
        return len(self.places) <= MOST_PLACES and slots <= MOST_SLOTS


class TableEntry:
    """One kind of call."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = tuple(words)
        self._memory = (ctypes.c_int64 * (ENTRY_HEAD + len(words)))()
        self._memory[_COUNT] = len(words)
        for place, word in enumerate(words):
            self._memory[ENTRY_HEAD + place] = word
        self._keep: list[Any] = []

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self._memory)

    @property
    def our_calls(self) -> int:
        """How often our kernel ran."""
        return int(self._memory[_OUR_CALLS])

    @property
    def torch_calls(self) -> int:
        """How often PyTorch's own kernel ran."""
        return int(self._memory[_TORCH_CALLS])

    @property
    def is_ours(self) -> bool:
        """Whether our kernel runs."""
        return bool(self._memory[_KIND] == OURS)

    @property
    def asks(self) -> bool:
        """Whether the next call leads to Python."""
        return bool(self._memory[_KIND] == ASKS)

    def lay_out(self, plan: NativePlan) -> int:
        """Where a plan is in memory, for `ours`."""
        self._keep.append(plan)
        return ctypes.addressof(self._laid_out(plan))

    def ours(self, plan: int) -> None:
        """The kernels of a plan run from now on."""
        self._memory[_PLAN] = plan
        self._memory[_KIND] = OURS

    def ask_again(self) -> None:
        """The next call leads to Python, as if it were the first."""
        self._memory[_KIND] = ASKS

    def torch(self) -> None:
        """PyTorch's own kernel runs from now on."""
        self._memory[_KIND] = TORCH

    def raises(self, message: str) -> None:
        """Such a call is an error."""
        text = ctypes.create_string_buffer(message.encode())
        self._keep.append(text)
        self._memory[_MESSAGE] = ctypes.addressof(text)
        self._memory[_KIND] = RAISES

    def forget_counts(self, ours: int, torch: int) -> None:
        """Calls that were made to time it do not count."""
        self._memory[_OUR_CALLS], self._memory[_TORCH_CALLS] = ours, torch

    def _laid_out(self, plan: NativePlan) -> Any:
        outputs: list[int] = []
        for output in plan.outputs:
            outputs += [output.result, len(output.sizes), self._array(output.sizes)]
            outputs += [self._array(output.strides), output.dtype]
            outputs += [output.device_type, output.device_index]
        places = [n for place in plan.places for n in (place.kind, place.index, place.offset)]
        steps: list[int] = []
        for step in plan.steps:
            binds = [number for bind in step.binds for number in bind]
            steps += [step.kernel, len(step.values), self._array(step.values)]
            steps += [len(step.binds), self._array(binds)]
        words = [len(plan.outputs), self._array(outputs), len(plan.places), self._array(places)]
        words += [len(plan.steps), self._array(steps), plan.arena_bytes, plan.left_to_torch]
        words.append(plan.device)
        self._array(words)
        return self._keep[-1]

    def _array(self, values: Sequence[int]) -> int:
        memory = (ctypes.c_int64 * max(len(values), 1))(*values)
        self._keep.append(memory)
        return ctypes.addressof(memory)


class CallTable:
    """All entries of a process."""

    def __init__(self) -> None:
        self._slots = (ctypes.c_int64 * CAPACITY)()
        self._state = (ctypes.c_int64 * _STATE_WORDS)()
        self._state[_TABLE] = ctypes.addressof(self._slots)
        self._state[_MASK] = CAPACITY - 1
        self._state[_CLOSED] = 1
        self._callback: Callable[[int, int], int] | None = None
        self._arenas: list[Any] = []
        self.entries: dict[tuple[int, ...], TableEntry] = {}

    @property
    def state_address(self) -> int:
        """What stubs are compiled with."""
        return ctypes.addressof(self._state)

    @property
    def calls_without_entry(self) -> int:
        """Calls that went to PyTorch because nobody was to be asked."""
        return int(self._state[_UNSEEN])

    @property
    def is_full(self) -> bool:
        """Whether there is no room for further entries."""
        return len(self.entries) >= CAPACITY // 2

    def forget_calls_without_entry(self) -> None:
        """Calls that were made to time the hook itself do not count."""
        self._state[_UNSEEN] = 0

    def open(self, callback: Callable[[int, int], int]) -> None:
        """Unknown words lead to Python from now on: where they are, how many; gives the entry."""
        self._callback = callback
        self._state[_CALLBACK] = id(callback)
        self._state[_CLOSED] = 0

    def close(self) -> None:
        """Unknown words go to PyTorch from now on."""
        self._state[_CLOSED] = 1

    def give_back_arena(self) -> None:
        """In a forked child: the thread that had the arena stayed in the parent."""
        self._state[_BUSY] = 0

    def lend(self, size: int) -> None:
        """Have an arena of at least so many bytes. One that is in use stays where it is."""
        if size > self._state[_ARENA_BYTES]:
            room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._arenas.append(room)
            self._state[_ARENA] = ctypes.addressof(ctypes.c_char.from_buffer(room))
            self._state[_ARENA_BYTES] = size
