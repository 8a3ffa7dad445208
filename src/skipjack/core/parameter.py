"""One parameter: a name, typed values, a default, and whether it decides the build."""

from __future__ import annotations

import keyword
import math
from dataclasses import dataclass
from typing import Literal

from skipjack.core.config import Value
from skipjack.errors import SpaceError

Stage = Literal["build", "run"]

_KINDS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting and the values it may take, all of one kind. The first is the default."""

    name: str
    values: tuple[Value, ...]
    default: Value | None = None
    stage: Stage = "build"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        name = self.name
        if not name.isidentifier() or keyword.iskeyword(name) or "__" in name:
            raise SpaceError(
                f"parameter {name!r} needs a name that an expression can use, as tile_m"
            )
        if not self.values:
            raise SpaceError(f"parameter {name} has no values; give at least one")
        kinds = {type(value) for value in self.values}
        if len(kinds) > 1 or not kinds <= set(_KINDS):
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SpaceError(
                f"parameter {name} has values of kind {found}; give all of bool, int, float or str"
            )
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.values):
            raise SpaceError(f"parameter {name} has a value that is not finite")
        if len(set(self.values)) < len(self.values):
            raise SpaceError(f"parameter {name} lists a value twice")
        if self.default is None:
            object.__setattr__(self, "default", self.values[0])
        elif not self.accepts(self.default):
            raise SpaceError(
                f"parameter {name} has default {self.default!r}, not one of its values"
            )
        if self.stage not in ("build", "run"):
            raise SpaceError(f"parameter {name} has stage {self.stage!r}; it is build or run")

    @property
    def default_index(self) -> int:
        """Where among the values the default is."""
        return self.values.index(self.default)

    def accepts(self, value: object) -> bool:
        """Whether this is one of the values, and of their kind: 1 is not True."""
        return type(value) is type(self.values[0]) and value in self.values

    def ranks(self) -> list[int]:
        """For each value its place: by size for numbers, as listed for text."""
        if isinstance(self.values[0], str):
            return list(range(len(self.values)))
        order = sorted(range(len(self.values)), key=lambda at: self.values[at])
        ranks = [0] * len(order)
        for rank, at in enumerate(order):
            ranks[at] = rank
        return ranks

    def feature(self, value: Value) -> float:
        """A number for a value: sizes by their logarithm, text by its place in the list."""
        if isinstance(value, str):
            return float(self.values.index(value))
        sizes = type(value) is int and all(v > 0 for v in self.values if isinstance(v, int))
        return math.log2(value) if sizes else float(value)
