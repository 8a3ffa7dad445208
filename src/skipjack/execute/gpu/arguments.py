"""Arguments of a launch as the bytes that a kernel reads, checked against its ABI."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.gpu.artifact import Argument, KernelAbi
from skipjack.gpu.plan import Descriptor, Launch, Number, Pointer, Scratch, Value

Address = Callable[[Pointer | Scratch], int]
TensorMap = Callable[[int, Sequence[int], Sequence[int], dict[str, Any]], bytes]

_INTEGERS = {
    "i1": "<b",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u1": "<B",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
}
_FLOATS = {"fp32": "<f", "f32": "<f", "fp64": "<d", "f64": "<d"}


def packed(
    launch: Launch, abi: KernelAbi, address: Address, tensor_map: TensorMap
) -> Iterator[bytes]:
    """The bytes of each argument in order, those that descriptors become included."""
    if len(launch.values) != len(abi.arguments):
        raise SkipjackError(
            f"kernel {abi.name} takes {len(abi.arguments)} arguments, "
            f"its launch plan gives {len(launch.values)}"
        )
    descriptors = iter(abi.descriptors)
    for number, (value, argument) in enumerate(zip(launch.values, abi.arguments, strict=True)):
        where = f"argument {number} of kernel {abi.name}"
        if isinstance(value, Descriptor):
            meta = dict(next(descriptors)) if abi.descriptors else None
            yield from _descriptor(value, argument, meta, address, tensor_map, where)
        elif isinstance(value, Number):
            yield _number(value, argument, where)
        else:
            yield _pointer(value, argument, address, where)


def _pointer(value: Value, argument: Argument, address: Address, where: str) -> bytes:
    if not isinstance(value, Pointer | Scratch) or not argument.type.startswith("*"):
        raise SkipjackError(f"{where} is {argument.type}; the launch plan gives an address")
    at = address(value)
    _check_divisible(at, argument, where)
    return struct.pack("<Q", at)


def _number(value: Number, argument: Argument, where: str) -> bytes:
    integer = value.type in _INTEGERS
    form = (_INTEGERS if integer else _FLOATS).get(argument.type)
    if form is None:
        raise SkipjackError(f"{where} is {argument.type}; the launch plan gives a {value.type}")
    if integer:
        _check_divisible(int(value.value), argument, where)
    try:
        return struct.pack(form, int(value.value) if integer else float(value.value))
    except (struct.error, OverflowError):
        raise SkipjackError(f"{where} is {argument.type}; {value.value} does not fit") from None


def _descriptor(
    value: Descriptor,
    argument: Argument,
    meta: dict[str, Any] | None,
    address: Address,
    tensor_map: TensorMap,
    where: str,
) -> Iterator[bytes]:
    """The hardware's descriptor or, where there is none, base, shape and strides; then both again.

    That is how Triton passes them.
    """
    if not argument.type.startswith("tensordesc"):
        raise SkipjackError(f"{where} is {argument.type}; the launch plan gives a descriptor")
    at = address(value.of)
    if meta is None:
        yield struct.pack("<Q", at)
        for size in (*value.shape, *value.strides):
            yield struct.pack("<q", size)
        yield b"\0"  # what lies outside reads as 0, not as NaN
    else:
        yield tensor_map(at, value.shape, value.strides, meta)
    for size in value.shape:
        yield struct.pack("<i", size)
    for stride in value.strides:
        yield struct.pack("<q", stride)


def _check_divisible(value: int, argument: Argument, where: str) -> None:
    if value % argument.divisible:
        raise SkipjackError(
            f"{where} was compiled for multiples of {argument.divisible}; {value} is none"
        )
