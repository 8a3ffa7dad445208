"""Guarded strided copies as data: which elements go where, and which are zero instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Walk:
    """One axis of a copy: how many steps, and what a step is in elements on both sides."""

    name: str
    extent: int
    out: int
    source: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Where there is something to copy: ``0 <= sum(coefficient * index) + constant < size``."""

    terms: tuple[tuple[str, int], ...]
    """Names of walks with coefficients."""
    constant: int
    size: int

    def coefficient(self, walk: str) -> int:
        """Of one walk; 0 where the bound has nothing to do with it."""
        return sum(coefficient for name, coefficient in self.terms if name == walk)


@dataclass(frozen=True, slots=True)
class Copy:
    """``out[sum(index * out)] = source[sum(index * source)]``, or zero outside of any bound.

    Every element of the target that the walks reach is written, and no other; they may not reach
    one twice. The source is not touched outside of the bounds, so that offsets and strides may
    lead out of it there. Walks may be given in any order.
    """

    walks: tuple[Walk, ...]
    bounds: tuple[Bound, ...] = ()
    out_offset: int = 0
    source_offset: int = 0
