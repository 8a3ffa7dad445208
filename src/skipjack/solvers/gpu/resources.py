"""Registers and spills of a compiled kernel, read from what the compiler wrote: no GPU is asked."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NV_INFO = b".nv.info"
_SIZED_VALUE = 4
"""Form of an attribute that has a length of its own; all others are four bytes in all."""
_FRAME_SIZE, _LEAST_STACK, _REGISTERS = 0x11, 0x12, 0x2F


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one thread."""

    registers: int = 0
    spill_bytes: int = 0
    """Memory of its own: registers that were spilled and arrays that did not fit into them."""


def of_cubin(binary: bytes) -> Usage:
    """From the section ``.nv.info``, in which ptxas lists each function with its needs."""
    found: dict[int, int] = {}
    for attribute, payload in _attributes(_section(binary, _NV_INFO)):
        if attribute in (_FRAME_SIZE, _LEAST_STACK, _REGISTERS) and len(payload) == 8:
            _, value = struct.unpack("<II", payload)
            found[attribute] = max(found.get(attribute, 0), value)
    stack = max(found.get(_FRAME_SIZE, 0), found.get(_LEAST_STACK, 0))
    return Usage(found.get(_REGISTERS, 0), stack)


def of_amdgcn(assembly: str) -> Usage:
    """From the metadata that LLVM writes below the code."""
    registers = _number(assembly, "vgpr_count")
    return Usage(registers, _number(assembly, "private_segment_fixed_size"))


def _number(assembly: str, name: str) -> int:
    found = re.findall(rf"^\s+(?:- )?\.{name}:\s+(\d+)\s*$", assembly, re.MULTILINE)
    return max(map(int, found), default=0)


def _section(binary: bytes, name: bytes) -> bytes:
    """Contents of a section of an ELF file; empty if there is none."""
    _, _, _, _, _, _, start, _, _, _, _, size, count, names_at = _HEADER.unpack_from(binary)
    headers = [_SECTION.unpack_from(binary, start + size * number) for number in range(count)]
    names = headers[names_at][4]
    for label, _, _, _, at, length, *_ in headers:
        begin = names + label
        if binary[begin : binary.index(b"\0", begin)] == name:
            return binary[at : at + length]
    return b""


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        length = value if form == _SIZED_VALUE else 0
        yield attribute, info[at + 4 : at + 4 + length]
        at += 4 + length
