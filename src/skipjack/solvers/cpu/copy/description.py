"""A strided copy with bounds as data: which elements are copied, and which are zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """One loop of a copy: its steps, and the stride of a step in elements on both sides."""

    name: str
    extent: int
    out: int
    source: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A condition on the elements to copy: ``0 <= sum(coefficient * index) + constant < size``."""

    terms: tuple[tuple[str, int], ...]
    """Names of loops, each with its coefficient."""
    constant: int
    size: int

    def coefficient(self, loop: str) -> int:
        """The coefficient of a loop; 0 if the bound does not depend on it."""
        return sum(coefficient for name, coefficient in self.terms if name == loop)


@dataclass(frozen=True, slots=True)
class Copy:
    """``out[sum(index * out)] = source[sum(index * source)]``, or zero outside any bound.

    Every element of the target that the loops reach is written, and no other; no element may be
    reached twice. The source is not read outside the bounds, so offsets and strides may point
    outside of it there. Loops may be given in any order.
    """

    loops: tuple[CopyLoop, ...]
    bounds: tuple[Bound, ...] = ()
    out_offset: int = 0
    source_offset: int = 0
