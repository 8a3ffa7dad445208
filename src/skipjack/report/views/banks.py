"""The difference of two banks."""

from __future__ import annotations

from skipjack.app.views import BankDifference
from skipjack.reading import numbered
from skipjack.report.documents import DocumentSection, FactList, Part, Prose
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
)
from skipjack.report.views.rendered_report import RenderedReport

_MOST_BARS = 40


def difference_figures(difference: BankDifference) -> dict[str, Figure]:
    """The figures of a difference, by name: ratios of times, and both times of each key."""
    rows = [one for one in difference.rows.rows if one.ratio is not None]
    if not rows:
        return {}
    far = sorted(rows, key=lambda one: -abs((one.ratio or 1.0) - 1.0))[:_MOST_BARS]
    bars = [
        FigureBar(
            f"{one.problem} ({one.device})",
            100.0 * ((one.ratio or 1.0) - 1.0),
            note=f"{one.ratio or 1.0:.2f}, {one.first_solver} to {one.second_solver}"
            if one.first_solver != one.second_solver
            else f"{one.ratio or 1.0:.2f}",
            kind="good" if (one.ratio or 1.0) >= 1.0 else "failed",
        )
        for one in sorted(far, key=lambda one: -(one.ratio or 1.0))
    ]
    title = "How much faster the second bank is, by recorded times"
    return {"gains": BarFigure(title, FigureAxis("percent faster"), bars)}


def difference_report(difference: BankDifference) -> RenderedReport:
    """The report of a difference."""
    figures = difference_figures(difference)
    counts = ", ".join(f"{count} {kind}" for kind, count in difference.counts.items())
    lead = Prose(f"{difference.same} entries are the same; {counts or 'no entry differs'}.")
    facts = FactList([("first bank", difference.first), ("second bank", difference.second)])
    shown: list[Part] = list(figures.values())
    if shown:
        shown.append(
            Prose("Times may be of different sessions; only timing both again compares them.")
        )
    sections = [
        DocumentSection("Banks", [facts]),
        DocumentSection("Gains", shown),
        DocumentSection("Differences", [difference.rows] if difference.rows.total else []),
    ]
    named = numbered(difference.rows.total, "difference")
    return RenderedReport(f"Two banks: {named}", sections, figures, [lead])
