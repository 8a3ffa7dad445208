"""Reducing the lanes of several vectors at once: one vector comes out, with an element for each.

Vectors are joined in pairs. What is left of each takes half the lanes, so that a vector of 16 lanes
holds the ends of 16 vectors after four rounds: a third of the work of reducing them one by one, and
one store instead of 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.scalar import combine, horizontal


def runs(offsets: Sequence[int], lanes: int) -> Iterator[tuple[int, ...]]:
    """Ascending offsets in runs of neighbours, each a power of two long and at most `lanes`."""
    left = list(offsets)
    while left:
        length = 1
        while 2 * length <= min(lanes, len(left)) and left[2 * length - 1] - left[0] < 2 * length:
            length *= 2
        yield tuple(left[:length])
        del left[:length]


def reduced_lanes(
    writer: IRWriter, vector: VectorType, reduction: str, values: list[str]
) -> tuple[VectorType, str]:
    """The reduced lanes of a power of two of vectors, at most as many as there are lanes."""
    count = len(values)
    if count == 1:
        return VectorType(vector.dtype, 1), horizontal(writer, vector, reduction, values[0])
    parts = 1  # how many of the vectors given lie in each of those that are left
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [_joined(writer, vector, reduction, pair, parts) for pair in pairs]
        parts *= 2
    kind, value = vector, values[0]
    while kind.lanes > count:
        half = VectorType(kind.dtype, kind.lanes // 2)
        low, high = (
            writer.shuffle(kind, (value, "poison"), _halves(kind.lanes, count, odd))
            for odd in (0, 1)
        )
        kind, value = half, combine(writer, half, reduction, low, high)
    return kind, value


def _joined(
    writer: IRWriter, vector: VectorType, reduction: str, pair: tuple[str, str], parts: int
) -> str:
    """Two vectors of so many parts each in one with twice as many of half the length."""
    low, high = (
        writer.shuffle(vector, pair, _halves(2 * vector.lanes, 2 * parts, odd)) for odd in (0, 1)
    )
    return combine(writer, vector, reduction, low, high)


def _halves(lanes: int, parts: int, odd: int) -> list[int]:
    """The first or second half of each of so many parts."""
    length = lanes // parts
    return [
        part * length + odd * (length // 2) + at
        for part in range(parts)
        for at in range(length // 2)
    ]
