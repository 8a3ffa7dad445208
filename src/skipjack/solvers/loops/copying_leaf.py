"""What is inside of the loops of a copy: one of several ways to copy what the last walks reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.copying_masks import Masks, Range
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter

Ranges = Mapping[str, Range]
"""What bounds leave of each walk."""


class Leaf(Protocol):
    """Writes the code of one way. Its walks may have ranges that are known only at run time."""

    @property
    def blocks(self) -> int:
        """In how many parts threads may share it out."""
        ...

    def prepared(self, ranges: Ranges) -> Masks:
        """Masks to make once for all places with the same ranges; written further outside."""
        ...

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """All of it or one block; `masks` are those prepared."""
        ...


class Element:
    """A single element: what is left where no walk lies side by side in the target."""

    blocks = 1

    def __init__(self, w: NumberWriter, dtype: str, *, nothing: bool) -> None:
        self.w, self.kind, self.nothing = w, VectorType(dtype, 1), nothing

    def prepared(self, ranges: Ranges) -> Masks:
        """It has no walk that a bound could be about."""
        return []

    def write(
        self, out: str, source: str, ranges: Ranges, masks: Masks, block: Number | None
    ) -> None:
        """Copy it, or write zero."""
        w, kind = self.w, self.kind
        w.store(kind, kind.constant(0.0) if self.nothing else w.load(kind, source), out)
