"""What can be read off machine code without running it: its size, its spills, what it calls."""

from __future__ import annotations

import re
import struct

from skipjack.native import llvm

# LLVM's comment tells the bytes; scalars that wait in vector registers are spilled in 4 or 8.
_SPILL = re.compile(r"^.*\b(?:16|32|64)-byte (?:Folded )?Spill", re.MULTILINE)
_VECTOR_REGISTER = re.compile(r"%[xyz]mm\d+\b|\bq\d+\b")
_SYMTAB = 2


def text_bytes(data: bytes) -> int:
    """Bytes of instructions in an object file."""
    code = llvm.binding().ObjectFileRef.from_data(data)
    return sum(section.size() for section in code.sections() if section.is_text())


def vector_spills(text: str, target: str) -> int | None:
    """How many vector registers the code of this IR stores to the stack for want of registers.

    Counted where they stand in the listing, in a loop or not. None if LLVM cannot say.
    """
    try:
        listing = llvm.assembly(text, target)
    except RuntimeError:
        return None
    return sum(len(_VECTOR_REGISTER.findall(line)) for line in _SPILL.findall(listing))


def undefined_symbols(data: bytes) -> list[str] | None:
    """Functions that an ELF object needs from elsewhere; None for another format."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (table_at,) = struct.unpack_from("<Q", data, 40)
    entry, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table_at + n * entry) for n in range(count)]
    found = []
    for _, kind, _, _, start, size, link, _, _, step in headers:
        if kind != _SYMTAB:
            continue
        names = headers[link][4]
        for at in range(start, start + size, step):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if name and not section:
                found.append(data[names + name : data.index(b"\0", names + name)].decode())
    return sorted(found)
