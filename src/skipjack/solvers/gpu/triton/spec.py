"""What to compile: a Triton function, the types of its arguments, constants and options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from skipjack.gpu import Argument

Constant = int | float | bool | str | None
TRITON_TYPES = {
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "tf32": "fp32",
    "f64": "fp64",
    "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5",
}
LONGEST = 2**31
"""The first number of elements that does not fit in 31 bits."""
EARLY_LAUNCH = {"launch_pdl": True}
"""Compiler options of a kernel that may start before the one before it has ended."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel. Specs that are equal, with equal source, target and compiler, are one build."""

    name: str
    """Its name in the launch plan."""
    module: str
    """The module of the function: its name, or the path of a ``.py`` file."""
    function: str
    arguments: Mapping[str, Argument]
    """Run-time arguments by name, in the order of the function's parameters."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    """``tl.constexpr`` parameters; a string such as ``tl.float16`` is a Triton type."""
    warps: int = 4
    stages: int = 2
    options: Mapping[str, Constant] = field(default_factory=dict)
    """Other options of Triton's compiler, such as ``num_ctas``, ``maxnreg``, ``waves_per_eu``."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; arguments are a list, which keeps their order."""
        record = asdict(self)
        record["arguments"] = [
            [name, argument.type, argument.divisible] for name, argument in self.arguments.items()
        ]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> KernelSpec:
        """The inverse of `to_json`."""
        arguments = {name: Argument(type_, div) for name, type_, div in record["arguments"]}
        return cls(**{**record, "arguments": arguments})

    @property
    def key(self) -> str:
        """Canonical JSON text."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


def integer_type(value: int) -> Argument:
    """The type of an integer, with its divisibility for the compiler."""
    type_ = "i32" if value < LONGEST else "i64"
    return Argument(type_, next((by for by in (16, 8) if value % by == 0), 1))


def pointer_type(type_: str) -> Argument:
    """The type of a tensor, which is aligned to 16 bytes."""
    return Argument(f"*{type_}", 16)


def descriptor_type(type_: str, block: Sequence[int]) -> Argument:
    """The type of a TMA descriptor of blocks."""
    return Argument(f"tensordesc<{type_}[{', '.join(map(str, block))}]>")
