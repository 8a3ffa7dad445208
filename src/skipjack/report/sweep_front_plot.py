"""The front of two objectives: all points, and those that no other beats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.report.sweep_axes import shortened
from skipjack.report.sweep_drawing import BEST, QUIET, figure, scale
from skipjack.report.sweep_pareto import non_dominated
from skipjack.report.sweep_points import point_text, summarize
from skipjack.sweep.result import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 8
"""More points than this on the front, and only the first and the last are named."""


def draw_front(result: SweepResult) -> Figure | None:
    """The first two objectives; None where there is one, or nothing has both."""
    if len(result.objectives) < 2:
        return None
    found = [(s.values[0], s.values[1], s.point) for s in summarize(result) if not s.screened]
    points = [(x, y, point) for x, y, point in found if x is not None and y is not None]
    if not points:
        return None
    first, second = result.objectives[:2]
    indices = non_dominated([(x, y) for x, y, _ in points], [first.direction, second.direction])
    front = sorted((points[index] for index in indices), key=lambda one: (one[0], one[1]))
    drawn = figure(7.0, 4.8)
    axes = drawn.add_subplot()
    axes.plot([x for x, _, _ in points], [y for _, y, _ in points], "o", color=QUIET, alpha=0.6)
    axes.plot([x for x, _, _ in front], [y for _, y, _ in front], "o-", color=BEST, label="front")
    middle = (points[0][0] + points[-1][0]) / 2.0
    for x, y, point in front if len(front) <= _NAMED else (front[0], front[-1]):
        # Names lie towards the middle and take no room from the points.
        name = axes.annotate(
            shortened(point_text(point), 40), (x, y), (0, -14 if x < middle else 7),
            textcoords="offset points", fontsize=8, ha="left" if x < middle else "right",
        )  # fmt: skip
        name.set_in_layout(False)
    axes.set_xlabel(f"{shortened(first.metric, 40)} ({first.direction})")
    axes.set_ylabel(f"{shortened(second.metric, 40)} ({second.direction})")
    axes.set_title("the front: points that no other beats in both")
    scale(axes, "x", [x for x, _, _ in points])
    scale(axes, "y", [y for _, y, _ in points])
    axes.margins(0.12)
    axes.grid(alpha=0.25)
    return drawn
