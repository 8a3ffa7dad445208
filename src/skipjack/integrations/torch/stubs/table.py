"""The table that native stubs read, in plain memory: what is done with which calls."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Numbers that stubs and Python share.

TORCH, OURS, RAISES, ASKS = range(4)
"""Kinds of entries."""
ENTRY_HEAD = 7
"""Numbers in an entry before its words."""
ARGUMENT, OPTIONAL_ARGUMENT, RESULT, ARENA, MUTABLE_ARGUMENT = range(5)
"""Kinds of places; the last is an optional argument that is modified."""
MOST_RANK = 8
"""Words have no sizes of tensors with more dimensions, which are left to PyTorch."""
MOST_ITEMS = 16
MOST_WORDS = 256
MOST_SLOTS = 1024
MOST_PLACES = 32


# The table that native stubs read, in plain memory: which kernel computes which calls.
#
# Only Python adds and changes entries, one thread at a time; stubs of any thread read them
# meanwhile. Nothing is ever freed, since a thread may be about to use it.

_STATE_WORDS = 8
_TABLE, _MASK, _CLOSED, _ARENA, _ARENA_BYTES, _BUSY, _UNSEEN, _CALLBACK = range(_STATE_WORDS)
_KIND, _OUR_CALLS, _TORCH_CALLS, _PLAN, _MESSAGE, _COUNT = range(1, ENTRY_HEAD)
CAPACITY = 1 << 14
UNDEFINED = -1
"""The dtype of a result that is not requested: an undefined tensor (None in Python)."""


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """A tensor that is allocated for a result."""

    result: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int
    """PyTorch's number of the dtype, or `UNDEFINED`."""
    device_type: int = 0
    device_index: int = 0


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """The place of a kernel's array."""

    kind: int
    index: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A kernel with its slots, some of which are bound to places by number."""

    kernel: int
    values: tuple[int, ...]
    binds: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NativePlan:
    """The steps that replace PyTorch's kernel."""

    outputs: tuple[PlanOutput, ...]
    places: tuple[PlanPlace, ...]
    steps: tuple[PlanStep, ...]
    arena_bytes: int = 0
    left_to_torch: int = 0
    """A bit for each result that PyTorch's kernel computes."""
    device: int = 0
    """The device's type times 256 plus its number; 0 is the CPU."""
    keep: tuple[object, ...] = ()
    """Objects that must stay alive: the kernels."""

    @property
    def fits(self) -> bool:
        """Whether it is within the limits of stubs."""
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
        """The address of the entry."""
        return ctypes.addressof(self._memory)

    @property
    def our_calls(self) -> int:
        """The number of calls that our kernel computed."""
        return int(self._memory[_OUR_CALLS])

    @property
    def torch_calls(self) -> int:
        """The number of calls that PyTorch's kernel computed."""
        return int(self._memory[_TORCH_CALLS])

    @property
    def is_ours(self) -> bool:
        """Whether our kernel computes such calls."""
        return bool(self._memory[_KIND] == OURS)

    @property
    def asks(self) -> bool:
        """Whether the next call leads to Python."""
        return bool(self._memory[_KIND] == ASKS)

    def lay_out(self, plan: NativePlan) -> int:
        """Write a plan to memory; returns its address, for `ours`."""
        self._keep.append(plan)
        return ctypes.addressof(self._laid_out(plan))

    def ours(self, plan: int) -> None:
        """Run the kernels of a plan from now on."""
        self._memory[_PLAN] = plan
        self._memory[_KIND] = OURS

    def ask_again(self) -> None:
        """Let the next call lead to Python, like the first one."""
        self._memory[_KIND] = ASKS

    def torch(self) -> None:
        """Run PyTorch's own kernel from now on."""
        self._memory[_KIND] = TORCH

    def raises(self, message: str) -> None:
        """Raise an error for such calls."""
        text = ctypes.create_string_buffer(message.encode())
        self._keep.append(text)
        self._memory[_MESSAGE] = ctypes.addressof(text)
        self._memory[_KIND] = RAISES

    def forget_counts(self, ours: int, torch: int) -> None:
        """Reset the counts, which include calls for timing."""
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
        """The address of the state, for the stubs."""
        return ctypes.addressof(self._state)

    @property
    def calls_without_entry(self) -> int:
        """Calls that PyTorch computed because the table was closed."""
        return int(self._state[_UNSEEN])

    @property
    def is_full(self) -> bool:
        """Whether there is no space for further entries."""
        return len(self.entries) >= CAPACITY // 2

    def forget_calls_without_entry(self) -> None:
        """Reset the count, which includes calls to time the hook itself."""
        self._state[_UNSEEN] = 0

    def open(self, callback: Callable[[int, int], int]) -> None:
        """Call `callback` with the address and number of unknown words; it returns the entry."""
        self._callback = callback
        self._state[_CALLBACK] = id(callback)
        self._state[_CLOSED] = 0

    def close(self) -> None:
        """Let PyTorch compute calls with unknown words from now on."""
        self._state[_CLOSED] = 1

    def give_back_arena(self) -> None:
        """In a forked child, release the arena: the thread that used it stayed in the parent."""
        self._state[_BUSY] = 0

    def lend(self, size: int) -> None:
        """Provide an arena of at least this size; an old one in use stays valid."""
        if size > self._state[_ARENA_BYTES]:
            room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._arenas.append(room)
            self._state[_ARENA] = ctypes.addressof(ctypes.c_char.from_buffer(room))
            self._state[_ARENA_BYTES] = size
