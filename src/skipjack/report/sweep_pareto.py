"""The front: points that no other point beats in every objective."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.objective import Direction
from skipjack.report.sweep_points import PointSummary, summarize
from skipjack.sweep.result import SweepResult

Row = Sequence[float | None]
Cost = tuple[tuple[float, ...], int]
"""What is to be small, and the index of its row."""


def non_dominated(rows: Sequence[Row], directions: Sequence[Direction]) -> list[int]:
    """Indices of the rows that no other is at least as good as everywhere and better somewhere.

    Equal rows stay together. A row without one of its values is not on the front.
    """
    signs = [-1.0 if direction == "max" else 1.0 for direction in directions]
    costs: list[Cost] = []
    for index, row in enumerate(rows):
        known = [sign * value for sign, value in zip(signs, row, strict=True) if value is not None]
        # What is no number is not equal to itself, and compares with nothing.
        if len(known) == len(signs) and all(value == value for value in known):
            costs.append((tuple(known), index))
    # In this order nothing that comes later dominates what came before.
    ordered = sorted(costs)
    front = _front_of_two(ordered) if len(signs) == 2 else _front_of_many(ordered)
    return sorted(index for _, index in front)


def _front_of_many(ordered: Sequence[Cost]) -> list[Cost]:
    front: list[Cost] = []
    for cost, index in ordered:
        if not any(_dominates(other, cost) for other, _ in front):
            front.append((cost, index))
    return front


def _front_of_two(ordered: Sequence[Cost]) -> list[Cost]:
    """The last on the front has the least second cost: it alone can dominate what comes."""
    front: list[Cost] = []
    for cost, index in ordered:
        if not front or not _dominates(front[-1][0], cost):
            front.append((cost, index))
    return front


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def pareto_front(result: SweepResult) -> list[PointSummary]:
    """The points on the front, best in the first objective first; empty with one objective.

    Points of which there are short runs only stand back as long as others were run in full.
    """
    if len(result.objectives) < 2:
        return []
    summaries = summarize(result)
    full = [summary for summary in summaries if not summary.screened] or summaries
    directions = [objective.direction for objective in result.objectives]
    return [full[index] for index in non_dominated([s.values for s in full], directions)]
