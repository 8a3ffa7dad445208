"""Fewer marks for many points: what could be seen stays, extremes always."""

from __future__ import annotations

from collections.abc import Sequence

XY = tuple[float, float]
MOST_MARKS = 2_000
"""Marks of a series; more cannot be told apart, and make files large and pages slow."""


def thinned_line(points: Sequence[XY], columns: int) -> list[XY]:
    """For each column of pixels the first, lowest, highest and last point; `points` in order of x.

    What is left covers the same pixels as all points would.
    """
    if len(points) <= 4 * columns:
        return list(points)
    kept: list[XY] = []
    low, high = points[0][0], points[-1][0]
    wide = (high - low) or 1.0
    start = 0
    while start < len(points):
        column = int((points[start][0] - low) / wide * columns)
        end = start
        while end < len(points) and int((points[end][0] - low) / wide * columns) == column:
            end += 1
        some = range(start, end)
        lowest = min(some, key=lambda at: points[at][1])
        highest = max(some, key=lambda at: points[at][1])
        kept += [points[at] for at in sorted({start, lowest, highest, end - 1})]
        start = end
    return kept


def thinned_points(points: Sequence[XY], most: int = MOST_MARKS) -> list[int]:
    """Which points to draw: one of those that share a cell of a grid, and all extremes.

    Positions are in pixels. The grid is as fine as the number of marks allows.
    """
    if len(points) <= most:
        return list(range(len(points)))
    numbers = range(len(points))
    extremes = {
        choose(numbers, key=lambda at: points[at][place])
        for choose in (min, max)
        for place in (0, 1)
    }
    size = 1.0
    while True:
        cells: dict[tuple[int, int], int] = {}
        for at, (x, y) in enumerate(points):
            cells.setdefault((int(x / size), int(y / size)), at)
        kept = extremes | set(cells.values())
        if len(kept) <= most:
            return sorted(kept)
        size *= 1.5
