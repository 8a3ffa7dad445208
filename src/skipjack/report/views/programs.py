"""What tuning changed in a program: its operations before and after, and time saved."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.app.views import ProgramPage
from skipjack.integrations.torch.outcomes import ResultRow
from skipjack.report.documents import DocumentSection, FactList, Part, Prose
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
    Kind,
    StepFigure,
    StepPart,
    text_of,
)
from skipjack.report.views.rendered_report import RenderedReport

_MOST_SAVINGS = 25
_MOST_PARTS = 60


def step_figure(
    rows: Sequence[ResultRow], title: str = "Operations before and after"
) -> StepFigure:
    """The time of all calls of each operation, before and after; the longest first.

    Operations that were never timed are left out.
    """
    timed = [one for one in rows if one.before_us is not None]
    timed.sort(key=lambda one: -(one.before_us or 0.0) * one.calls)
    parts = [_part(one) for one in timed[:_MOST_PARTS]]
    if rest := timed[_MOST_PARTS:]:
        others = [_part(one) for one in rest]
        before, after = sum(one.before for one in others), sum(one.after for one in others)
        parts.append(StepPart(f"{len(others)} others", before, after))
    kinds: list[tuple[Kind, str]] = [("best", "Skipjack's kernel"), ("plain", "PyTorch's kernel")]
    return StepFigure(
        title, FigureAxis("time of all calls", "ns"), parts, ("PyTorch", "tuned"), kinds
    )


def _part(one: ResultRow) -> StepPart:
    before = (one.before_us or 0.0) * 1000.0 * one.calls
    ours = one.kernel == "skipjack"
    after = one.after_us * 1000.0 * one.calls if ours and one.after_us is not None else before
    name = one.op.removeprefix("aten::").replace("_", " ").strip()
    return StepPart(name, before, after, "best" if ours else "plain")


def savings_figure(rows: Sequence[ResultRow], title: str = "Time saved") -> BarFigure:
    """The time that all calls of an operation saved, most first."""
    saved = sorted((one for one in rows if one.saved_us > 0.0), key=lambda one: -one.saved_us)
    bars = [
        FigureBar(
            f"{one.op.removeprefix('aten::')} {one.description}",
            one.saved_us * 1000.0,
            note=", ".join(
                [
                    text_of(one.saved_us * 1000.0, "ns"),
                    *([f"{one.gain:.2f} times as fast"] if one.gain else []),
                    f"{one.calls} calls",
                ]
            ),
        )
        for one in saved[:_MOST_SAVINGS]
    ]
    return BarFigure(title, FigureAxis("time saved by all calls", "ns"), bars)


def statuses_figure(page: ProgramPage, title: str = "Operations by outcome") -> BarFigure:
    """How many operations were found in a bank, tuned, or left to PyTorch."""
    shown = {
        name: count
        for name, count in page.counts.items()
        if name not in ("total", "with_skipjack_kernel") and count
    }
    kinds: dict[str, Kind] = {"failed": "failed", "bank_hit": "good", "bank_update": "best"}
    bars = [
        FigureBar(name.replace("_", " "), float(count), kind=kinds.get(name, "plain"))
        for name, count in shown.items()
    ]
    return BarFigure(title, FigureAxis("operations", "count", whole=True), bars)


def program_figures(page: ProgramPage, rows: Sequence[ResultRow] = ()) -> dict[str, Figure]:
    """The figures of a program, by name; `rows` are all operations, by default the page's."""
    rows = rows or page.operations.rows
    found: dict[str, Figure] = {}
    if any(one.before_us is not None for one in rows):
        found["before-and-after"] = step_figure(rows)
    if any(one.saved_us > 0.0 for one in rows):
        found["savings"] = savings_figure(rows)
    if page.row.operations:
        found["outcomes"] = statuses_figure(page)
    return found


def program_report(page: ProgramPage) -> RenderedReport:
    """The report of a program; its operations should all be on one page of their table."""
    figures = program_figures(page)
    shown: list[Part] = list(figures.values())
    reasons: list[Part] = [
        Prose(f"{count} left to PyTorch: {reason}") for reason, count in page.reasons[:10] if reason
    ]
    row = page.row
    state = "" if row.has_ended else "it has not ended, or was killed"
    facts = FactList(
        [
            ("command", row.command),
            ("directory", page.directory),
            ("process", str(page.pid)),
            ("policy", row.policy),
            ("written", text_of(row.written, "time")),
            ("remark", state),
        ]
    )
    sections = [
        DocumentSection("Program", [facts]),
        DocumentSection("What was gained", shown),
        DocumentSection("Operations", [page.operations]),
        DocumentSection("Left to PyTorch", reasons),
    ]
    return RenderedReport(f"Program {row.command}", sections, figures, [Prose(_sentence(page))])


def _sentence(page: ProgramPage) -> str:
    row, time = page.row, page.time
    head = f"{row.ours} of {row.operations} operations ran kernels of Skipjack"
    if row.saved_us > 0.0:
        head += f"; by the times of single calls they saved {text_of(row.saved_us * 1000.0, 'ns')}"
    if time is None:
        return f"{head}."
    took = f"The program took {time.seconds:.2f} s"
    if time.before_seconds is not None:
        took += f", and {time.before_seconds:.2f} s without them"
    if time.gain is not None:
        took += f": {time.gain:.2f} times as fast"
    return f"{head}. {took}."
