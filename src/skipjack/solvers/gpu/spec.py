"""What is to be compiled: a Triton function, the types of its arguments, constants and options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from skipjack.gpu.artifact import Argument

Constant = int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel. Equal specs of equal source on one target and compiler are one build."""

    name: str
    """As the launch plan calls it."""
    module: str
    """Where the function is: a module's name, or a file's path that ends in ``.py``."""
    function: str
    arguments: Mapping[str, Argument]
    """Run-time arguments by name, in the order of the function's parameters."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    """Its ``tl.constexpr`` parameters; a text is the name of a Triton type, as ``tl.float16``."""
    warps: int = 4
    stages: int = 2
    options: Mapping[str, Constant] = field(default_factory=dict)
    """Further options of Triton's compiler, as ``num_ctas``, ``maxnreg``, ``waves_per_eu``."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; the order of the arguments is kept."""
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
        """Canonical text."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
