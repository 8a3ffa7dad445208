"""One axis of a depthwise convolution: which positions each position is computed from.

Forward, a position of the result reads the image at a fixed distance for every tap. Backward, a
position of the image reads the result, and which taps it meets depends on its phase, the remainder
of its place by the stride. Both are a `Pattern`, so one kind of code does both. `runs` cuts an axis
into pieces of a size; those at the ends, where taps fall beyond the given array, are told apart
from those in between, which are all alike and need no checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from skipjack.operations.conv_geometry import Axis

Reads = tuple[tuple[int, int], ...]
"""Pairs of a tap of the filter and the place that it meets, by ascending place."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Position ``step * block + phase`` reads ``stride * block + place`` for all of a phase."""

    size: int
    given: int
    """Positions of the array that is read."""
    step: int
    stride: int
    phases: tuple[Reads, ...]

    @property
    def blocks(self) -> int:
        """Those of the first phase; other phases may have one less."""
        return -(-self.size // self.step)

    def count(self, phase: int) -> int:
        """Positions of a phase."""
        return -(-(self.size - phase) // self.step)


@dataclass(frozen=True, slots=True)
class Run:
    """Some neighbouring positions, and how many more pieces like this one follow."""

    begin: int
    size: int
    base: int
    """The position of the array that is read which places are relative to."""
    reads: tuple[Reads, ...]
    """For each position what it reads; what lies beyond the array is left out."""
    step: int
    """From a piece's base to the next one's."""
    repeats: int = 1

    @property
    def taps(self) -> list[int]:
        """Those that meet anything."""
        return sorted({tap for reads in self.reads for tap, _ in reads})


def gathering(axis: Axis, *, backward: bool) -> Pattern:
    """What the result reads of the image, or backward the image of the result."""
    if not backward:
        reads = tuple((tap, tap * axis.dilation - axis.pad) for tap in range(axis.filter))
        return Pattern(axis.result, axis.image, 1, axis.stride, (reads,))
    phases = tuple(_met(axis, phase) for phase in range(axis.stride))
    return Pattern(axis.image, axis.result, axis.stride, 1, phases)


def _met(axis: Axis, phase: int) -> Reads:
    """The taps that a phase of the image meets; the last one meets the first place."""
    distances = [
        (tap, phase + axis.pad - tap * axis.dilation) for tap in reversed(range(axis.filter))
    ]
    return tuple((tap, far // axis.stride) for tap, far in distances if far % axis.stride == 0)


@lru_cache(maxsize=256)
def runs(pattern: Pattern, size: int) -> tuple[Run, ...]:
    """All positions in pieces of up to a size, all but the last of them equally long.

    The size is a multiple of the pattern's step.
    """
    found: list[Run] = []
    for begin in range(0, pattern.size, size):
        run = _run(pattern, begin, size)
        last = found[-1] if found else None
        if last is not None and (last.size, last.reads) == (run.size, run.reads):
            found[-1] = replace(last, repeats=last.repeats + 1)
        else:
            found.append(run)
    return tuple(found)


def balanced(pattern: Pattern, most: int, unit: int = 1) -> int:
    """A size of at most so many units of positions that cuts an axis into pieces about equal."""
    units = -(-pattern.size // (unit * pattern.step))
    pieces = -(-units // max(1, most))
    return -(-units // pieces) * unit * pattern.step


def _run(pattern: Pattern, begin: int, size: int) -> Run:
    base = pattern.stride * (begin // pattern.step)
    reads = []
    for at in range(min(size, pattern.size - begin)):
        shift = pattern.stride * (at // pattern.step)
        places = [(tap, place + shift) for tap, place in pattern.phases[at % pattern.step]]
        reads.append(
            tuple((tap, place) for tap, place in places if 0 <= base + place < pattern.given)
        )
    return Run(begin, len(reads), base, tuple(reads), pattern.stride * (size // pattern.step))
