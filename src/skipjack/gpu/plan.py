"""Launch plans: the steps that compute a problem once on the GPU, serializable as text.

A plan is a sequence of steps; as slots (`skipjack.solvers.solver.Slot`) each step is a canonical
JSON text. Solvers write plans in pure Python, without a compiler or a GPU; runners read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import Field, read_json

_LARGEST_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of a tensor of the problem, plus an offset in bytes."""

    tensor: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """The address of scratch memory; steps that use the same name share it."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number of type ``i32``, ``i64``, ``f32`` or ``f64``."""

    type: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A TMA descriptor of a tensor or scratch; the block's shape is in the kernel's ABI."""

    of: Pointer | Scratch
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements; the last one is 1."""


Value = Pointer | Scratch | Number | Descriptor


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel of the artifact, with its grid and run-time arguments in order."""

    kernel: str
    grid: tuple[int, int, int]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Set all bytes of a tensor or scratch buffer, for example to 0 before atomic additions."""

    where: Pointer | Scratch
    size: int
    byte: int = 0


Step = Launch | Fill


def launch(kernel: str, grid: Sequence[int], values: Iterable[Value | str | int | float]) -> Launch:
    """A launch; a str is the name of a tensor, an int an i32 or i64, a float an f32."""
    sizes = (*grid, 1, 1)[:3]
    if any(size < 1 or size > most for size, most in zip(sizes, _LARGEST_GRID, strict=True)):
        raise SkipjackError(f"kernel {kernel} cannot be launched on a grid of {tuple(grid)}")
    return Launch(kernel, (sizes[0], sizes[1], sizes[2]), tuple(map(_value, values)))


def to_slots(steps: Sequence[Step]) -> list[str]:
    """The canonical text of each step."""
    return [json.dumps(_record(step), separators=(",", ":"), sort_keys=True) for step in steps]


def from_slots(slots: Sequence[str | int]) -> list[Step]:
    """The steps; `SkipjackError` if these are not the slots of a plan."""
    try:
        return [_step(read_json(str(slot), finite=False)) for slot in slots]
    except MalformedError as error:
        raise SkipjackError(f"the launch plan cannot be read: {error}") from None


def scratch_sizes(steps: Sequence[Step]) -> dict[str, int]:
    """The scratch memory of a plan, by name."""
    sizes: dict[str, int] = {}
    for step in steps:
        for used in _used(step):
            place = used.of if isinstance(used, Descriptor) else used
            if isinstance(place, Scratch):
                sizes[place.name] = max(sizes.get(place.name, 0), place.size)
    return sizes


def blocks(launch_: Launch) -> int:
    """The number of blocks of the grid."""
    return prod(launch_.grid)


def _used(step: Step) -> tuple[Value, ...]:
    return step.values if isinstance(step, Launch) else (step.where,)


def _value(value: Value | str | int | float) -> Value:
    if isinstance(value, str):
        return Pointer(value)
    if isinstance(value, int):
        return Number("i32" if -(2**31) <= value < 2**31 else "i64", value)
    return Number("f32", value) if isinstance(value, float) else value


def _record(step: Step) -> dict[str, Any]:
    if isinstance(step, Fill):
        return {"fill": _text(step.where), "size": step.size, "byte": step.byte}
    return {
        "launch": step.kernel,
        "grid": list(step.grid),
        "values": [_text(value) for value in step.values],
    }


def _text(value: Value) -> Any:
    match value:
        case Pointer(tensor, offset):
            return [tensor, offset] if offset else tensor
        case Scratch(name, size):
            return ["@scratch", name, size]
        case Number(type_, number):
            return [f"@{type_}", number]
        case Descriptor(of, shape, strides):
            return ["@descriptor", _text(of), list(shape), list(strides)]


def _step(record: Field) -> Step:
    if filled := record.get("fill"):
        return Fill(_place(filled), record["size"].integer(0), record["byte"].integer(0, 255))
    x, y, z = (size.integer(1) for size in record["grid"].elements(3))
    values = tuple(_parsed(value) for value in record["values"].elements())
    return Launch(record["launch"].text(), (x, y, z), values)


def _parsed(field: Field) -> Value:
    if isinstance(field.plain, str):
        return Pointer(field.plain)
    match field.elements():
        case [word, name, size] if word.plain == "@scratch":
            return Scratch(name.text(), size.integer(0))
        case [word, of, shape, strides] if word.plain == "@descriptor":
            return Descriptor(_place(of), _integers(shape), _integers(strides))
        case [word, value] if word.plain in ("@i32", "@i64"):
            return Number(word.text()[1:], value.integer())
        case [word, value] if word.plain in ("@f32", "@f64"):
            # Infinities are allowed: a maximum begins with one.
            number = value.plain if isinstance(value.plain, float) else value.number()
            return Number(word.text()[1:], number)
        case [tensor, offset]:
            return Pointer(tensor.text(), offset.integer())
    raise field.malformed("this is not an argument")


def _integers(field: Field) -> tuple[int, ...]:
    return tuple(one.integer() for one in field.elements())


def _place(field: Field) -> Pointer | Scratch:
    value = _parsed(field)
    if isinstance(value, Pointer | Scratch):
        return value
    raise field.malformed("this is not a tensor or scratch")
