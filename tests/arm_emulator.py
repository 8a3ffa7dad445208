"""Runs AArch64 object code on any machine, in the Unicorn emulator."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_CODE, _STACK, _SLOTS, _END, _DATA = 0x1000_0000, 0x2000_0000, 0x2800_0000, 0x7000_0000, 0x3000_0000
_STACK_BYTES = 1 << 20
_PAGE = 4096
_SYMTAB, _RELA, _NOBITS, _ALLOCATED = 2, 4, 8, 2
_SCALED = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""Relocations of the lower 12 bits of an address, and by how many bits each shifts them."""


class ArmObject:
    """An ELF object file laid out in memory, its relocations applied."""

    def __init__(self, data: bytes) -> None:
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        self._data = data
        self._sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, table + n * size) for n in range(count)
        ]
        self.image = bytearray()
        self._places: dict[int, int] = {}
        for number, (_, kind, flags, _, start, length, *_) in enumerate(self._sections):
            if flags & _ALLOCATED:
                self.image += bytes(-len(self.image) % _PAGE)
                self._places[number] = _CODE + len(self.image)
                self.image += bytes(length) if kind == _NOBITS else data[start : start + length]
        self.image += bytes(-len(self.image) % _PAGE)
        self._symbols = self._read_symbols()
        self.addresses = dict(self._symbols)
        for section in self._sections:
            if section[1] == _RELA and section[7] in self._places:
                self._relocate(section)

    def _read_symbols(self) -> list[tuple[str, int]]:
        (table,) = (section for section in self._sections if section[1] == _SYMTAB)
        names = self._sections[table[6]][4]
        found = []
        for at in range(table[4], table[4] + table[5], 24):
            name, _, _, section, value = struct.unpack_from("<IBBHQ", self._data, at)
            end = self._data.index(b"\0", names + name)
            place = self._places.get(section, 0) + value
            found.append((self._data[names + name : end].decode(), place))
        return found

    def _relocate(self, table: Sequence[int]) -> None:
        for at in range(table[4], table[4] + table[5], 24):
            offset, info, addend = struct.unpack_from("<QQq", self._data, at)
            place = self._places[table[7]] + offset
            goal = self._symbols[info >> 32][1] + addend
            (word,) = struct.unpack_from("<I", self.image, place - _CODE)
            word |= _bits(info & 0xFFFF_FFFF, place, goal)
            struct.pack_into("<I", self.image, place - _CODE, word)


def _bits(kind: int, place: int, goal: int) -> int:
    """What a relocation adds to an instruction."""
    if kind in (275, 276):  # the page of an address, relative to this one
        pages = (goal >> 12) - (place >> 12)
        return (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5
    if kind in (282, 283):  # a jump or a call
        return ((goal - place) >> 2) & 0x3FFFFFF
    if kind == 261:  # a difference, in tables of unwinding
        return (goal - place) & 0xFFFF_FFFF
    return ((goal & 0xFFF) >> _SCALED[kind]) << 10


class _Memory:
    """Arrays and workspaces in the emulator; arrays end where memory ends that can be touched."""

    def __init__(self, machine: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._machine, self._arrays = machine, arrays
        self._free = _DATA
        self._places: dict[str, int] = {}
        self._scratch: dict[str, int] = {}

    def value(self, slot: str | int) -> int:
        """What stands in the slot."""
        if isinstance(slot, int) or slot.startswith("@parallel"):
            return slot if isinstance(slot, int) else 0
        if slot.startswith("@workspace:"):
            return self._put(bytes(int(slot.partition(":")[2])), at_end=False)
        places = self._scratch if slot.startswith("@scratch:") else self._places
        if slot in places:
            return places[slot]
        if slot.startswith("@scratch:"):
            places[slot] = self._put(bytes(int(slot.rpartition(":")[2])), at_end=False)
        else:
            places[slot] = self._put(self._arrays[slot].tobytes(), at_end=True)
        return places[slot]

    def _put(self, content: bytes, at_end: bool) -> int:
        padding = -len(content) % _PAGE if content else _PAGE
        place = self._free + padding if at_end else self._free
        self._machine.mem_map(self._free, len(content) + padding)
        self._machine.mem_write(place, content)
        self._free += len(content) + padding + _PAGE
        return place

    def read_back(self) -> None:
        """Give the arrays what the kernel left."""
        for name, place in self._places.items():
            array = self._arrays[name]
            content = bytes(self._machine.mem_read(place, array.nbytes))
            array[...] = np.frombuffer(content, array.dtype).reshape(array.shape)


def run(
    data: bytes, symbol: str, slots: Sequence[str | int], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Call a kernel on one thread; afterwards the arrays hold what it left."""
    unicorn, arm = (importlib.import_module(name) for name in ("unicorn", "unicorn.arm64_const"))
    code = ArmObject(data)
    machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    machine.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
    memory = _Memory(machine, arrays)
    values = [memory.value(slot) for slot in slots]
    machine.mem_map(_STACK, _STACK_BYTES)
    machine.mem_map(_END, _PAGE)
    machine.mem_map(_SLOTS, _PAGE)
    machine.mem_write(_SLOTS, struct.pack(f"<{len(values)}q", *values))
    machine.mem_map(_CODE, len(code.image))
    machine.mem_write(_CODE, bytes(code.image))
    machine.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # vector registers may be used
    machine.reg_write(arm.UC_ARM64_REG_SP, _STACK + _STACK_BYTES - 256)
    machine.reg_write(arm.UC_ARM64_REG_X0, _SLOTS)
    machine.reg_write(arm.UC_ARM64_REG_LR, _END)
    machine.emu_start(code.addresses[symbol], _END, timeout=60_000_000)
    assert machine.reg_read(arm.UC_ARM64_REG_PC) == _END, "it did not return"
    memory.read_back()
