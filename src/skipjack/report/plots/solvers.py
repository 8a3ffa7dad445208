"""The ranking of a find: a bar for each solver that ran, and a word for each that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.report.numbers import gain_text, time_text, time_unit
from skipjack.report.sweep_drawing import BEST, FAILED, QUIET, figure
from skipjack.tuning import FindResult, FindStatus, RankedSolver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TIE = "#f0a37c"


def draw_ranking(result: FindResult) -> Figure | None:
    """The fastest at the top, those that failed at the bottom; None where nothing was tried."""
    rows = [one for one in result.solvers if one.status != FindStatus.NOT_APPLICABLE]
    if not rows:
        return None
    times = [one.time_ns for one in rows if one.time_ns is not None]
    unit_ns, unit = time_unit(times)
    drawn = figure(8.0, 1.4 + 0.34 * len(rows))
    axes = drawn.subplots()
    for place, one in enumerate(rows):
        length = (one.time_ns or 0.0) / unit_ns
        axes.barh(place, length, height=0.62, color=_colour(one, place))
        axes.annotate(
            _told(one, place), (length, place), (5, 0), textcoords="offset points", va="center",
            color="black" if one.ok else FAILED,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [one.solver for one in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"time, {unit} (less is better)")
    axes.set_title(f"{result.problem.key} on {result.device}")
    axes.margins(x=0.35)
    axes.grid(axis="x", alpha=0.25)
    return drawn


def _colour(one: RankedSolver, place: int) -> str:
    return BEST if place == 0 else _TIE if one.tie else QUIET


def _told(one: RankedSolver, place: int) -> str:
    """``1.2 ms, 1.04 [1.03, 1.06] times the first``; of one that failed, how."""
    if not one.ok:
        return one.status
    if place == 0 or one.behind is None:
        return time_text(one.time_ns)
    times = gain_text(one.behind.ratio, one.behind.low, one.behind.high)
    return f"{time_text(one.time_ns)}, {times} times the first{' (tie)' if one.tie else ''}"
