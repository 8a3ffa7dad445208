"""Parameters, registers and spills of a compiled kernel, read from the compiler's output."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skipjack.gpu import Argument, GpuBuildError

# How many parameters a compiled kernel takes, counted in its assembly.
#
# A launch passes the arguments of the function and then pointers that Triton adds. Their number is
# counted, because it differs between versions of Triton, and a launch with too few reads garbage.

_ENTRY = re.compile(r"\.visible \.entry \w+\((.*?)\)", re.DOTALL)
_SHAPE = re.compile(r"tensordesc<[^\[]*\[([^\]]*)\]")
_MOST_HIDDEN = 2
"""Global scratch and profile scratch."""


def hidden_pointers(
    arguments: Iterable[Argument], counted: int, *, copy_engine: bool, kernel: str
) -> int:
    """The number of parameters that Triton adds after the last argument."""
    hidden = counted - sum(
        parameter_count(argument, copy_engine=copy_engine) for argument in arguments
    )
    if 0 <= hidden <= _MOST_HIDDEN:
        return hidden
    raise GpuBuildError(
        f"kernel {kernel}: it takes {counted} parameters, which do not match its arguments; "
        "this version of Triton is not supported"
    )


def parameter_count(argument: Argument, *, copy_engine: bool) -> int:
    """The number of parameters that one argument becomes.

    A descriptor is followed by its shape and strides. Without a copy engine (TMA), the descriptor
    itself is replaced by an address, shape, strides and a flag.
    """
    shape = _SHAPE.match(argument.type)
    if shape is None:
        return 1
    rank = shape[1].count(",") + 1
    itself = 1 if copy_engine else 1 + 2 * rank + 1
    return itself + 2 * rank


def count_in_ptx(text: str) -> int:
    """The number of parameters of the only kernel in PTX."""
    entry = _ENTRY.search(text)
    return entry[1].count(".param") if entry else 0


def count_in_amdgcn(text: str) -> int:
    """The number of parameters of the only kernel, without those that the runtime adds."""
    return len(re.findall(r"^\s+(?:- )?\.value_kind:\s+(?!hidden_|\s)", text, re.MULTILINE))


# Registers and spills of a compiled kernel, read from the compiler's output without a GPU.

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NV_INFO = b".nv.info"
_SIZED_VALUE = 4
"""Form of an attribute with a length field; all other attributes have four bytes."""
_FRAME_SIZE, _LEAST_STACK, _REGISTERS = 0x11, 0x12, 0x2F


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of one thread."""

    registers: int = 0
    spill_bytes: int = 0
    """Local memory: spilled registers, and arrays that did not fit into registers."""


def of_cubin(binary: bytes) -> Usage:
    """Read the section ``.nv.info``, in which ptxas lists the resources of each function."""
    found: dict[int, int] = {}
    for attribute, payload in _attributes(_section(binary, _NV_INFO)):
        if attribute in (_FRAME_SIZE, _LEAST_STACK, _REGISTERS) and len(payload) == 8:
            _, value = struct.unpack("<II", payload)
            found[attribute] = max(found.get(attribute, 0), value)
    stack = max(found.get(_FRAME_SIZE, 0), found.get(_LEAST_STACK, 0))
    return Usage(found.get(_REGISTERS, 0), stack)


def of_amdgcn(assembly: str) -> Usage:
    """Read the metadata that LLVM writes after the code."""
    registers = _number(assembly, "vgpr_count")
    return Usage(registers, _number(assembly, "private_segment_fixed_size"))


def _number(assembly: str, name: str) -> int:
    found = re.findall(rf"^\s+(?:- )?\.{name}:\s+(\d+)\s*$", assembly, re.MULTILINE)
    return max(map(int, found), default=0)


def _section(binary: bytes, name: bytes) -> bytes:
    """The content of a section of an ELF file; empty if there is none."""
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
