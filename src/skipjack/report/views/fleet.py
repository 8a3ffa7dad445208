"""Figures of the fleet's jobs, and the report of a label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from skipjack.app.views import (
    FleetPage,
    LabelPage,
    RecordTable,
    TableRequest,
    ViewColumn,
    table_of,
)
from skipjack.fleet.model import JobState
from skipjack.fleet.store import ErrorGroup, JobSummary, StateTimeline, Throughput
from skipjack.report.documents import DocumentSection, FactList, Part, Prose
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
    Kind,
    LineFigure,
    LineSeries,
    StackedFigure,
    StackedState,
    text_of,
)
from skipjack.report.views.rendered_report import RenderedReport

STATE_KINDS: Mapping[str, Kind] = {
    JobState.EVALUATED: "good",
    JobState.NOT_APPLICABLE: "ended",
    JobState.ERROR: "failed",
    JobState.EVALUATING: "running",
    JobState.BUILT: "ready",
    JobState.BUILDING: "building",
    JobState.NEW: "waiting",
    JobState.ABORTED: "stopped",
}
"""The colors of states, those that are over first: they are the lowest in figures."""
_MOST_GAINS = 30


def jobs_figure(timeline: StateTimeline, title: str = "Jobs by state") -> StackedFigure:
    """How many jobs were in each state over time."""
    states = [
        StackedState(state.replace("_", " "), _held(timeline.counts[state]), kind)
        for state, kind in STATE_KINDS.items()
        if any(timeline.counts.get(state, ()))
    ]
    whole = FigureAxis("jobs", "count", whole=True)
    return StackedFigure(title, FigureAxis("time", "time"), whole, _edges(timeline), states)


def pace_figure(timeline: StateTimeline, title: str = "Evaluated jobs per hour") -> LineFigure:
    """How many jobs were evaluated per hour, over time."""
    edges = _edges(timeline)
    rates = [
        3600.0 * count / max(end - start, 1.0)
        for count, (start, end) in zip(timeline.finished, pairwise(edges), strict=False)
    ]
    axis = FigureAxis("jobs per hour", "count", log=False, zero=True)
    return LineFigure(
        title,
        FigureAxis("time", "time"),
        axis,
        [LineSeries("evaluated", edges[: len(rates) + 1], _held(rates), "step", "good")],
        height=160.0,
    )


def _edges(timeline: StateTimeline) -> list[float]:
    """The start of the first period, and the ends of all."""
    if not timeline.ends:
        return []
    whole = timeline.width_s
    first = (
        timeline.ends[0] - whole if len(timeline.ends) > 1 else timeline.ends[0] // whole * whole
    )
    return [first, *timeline.ends]


def _held(values: Sequence[float]) -> list[float]:
    """The values of periods at their starts, and the last one at its end, too."""
    return [*values, *values[-1:]]


def errors_figure(errors: Sequence[ErrorGroup], title: str = "Errors by reason") -> BarFigure:
    """How many jobs failed for the same reason."""
    axis = FigureAxis("jobs", "count", whole=True)
    bars = [
        FigureBar(f"{one.stage}: {one.reason}".strip(": "), float(one.jobs), kind="failed")
        for one in errors
    ]
    return BarFigure(title, axis, bars)


def gains_figure(
    jobs: Iterable[JobSummary], title: str = "Gains over the first config"
) -> BarFigure:
    """How many times as fast the best config of each job is as its first one, best first."""
    known = sorted(
        (one for one in jobs if one.gain is not None), key=lambda one: -(one.gain or 0.0)
    )[:_MOST_GAINS]
    bars = [
        FigureBar(
            f"{one.problem} ({one.device})",
            one.gain,
            note=f"{one.gain or 0.0:.2f}, {text_of(one.best_ns, 'ns')}",
        )
        for one in known
    ]
    return BarFigure(title, FigureAxis("times as fast", "ratio"), bars)


def _timeline_figures(timeline: StateTimeline, errors: Sequence[ErrorGroup]) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    if timeline.ends:
        found["jobs"] = jobs_figure(timeline)
    if sum(timeline.finished):
        found["pace"] = pace_figure(timeline)
    if errors:
        found["errors"] = errors_figure(errors)
    return found


def fleet_figures(page: FleetPage) -> dict[str, Figure]:
    """The figures of the overview, by name."""
    return _timeline_figures(page.timeline, page.errors)


def label_figures(page: LabelPage, jobs: Sequence[JobSummary] = ()) -> dict[str, Figure]:
    """The figures of a label, by name; `jobs` are those whose gains are shown."""
    found = _timeline_figures(page.timeline, page.errors)
    if any(one.gain is not None for one in jobs):
        found["gains"] = gains_figure(jobs)
    return found


CountRow = tuple[str, Mapping[str, int]]


def count_table(
    name: str, title: str, counts: Mapping[str, Mapping[str, int]]
) -> RecordTable[CountRow]:
    """Numbers of jobs by state, a row for each device or solver."""
    states = [str(state) for state in JobState if any(row.get(state) for row in counts.values())]
    columns = (
        ViewColumn[CountRow](title, title, lambda row: row[0]),
        *(_state_column(state) for state in states),
        ViewColumn[CountRow]("jobs", "all", lambda row: sum(row[1].values()), "count"),
    )
    rows: list[CountRow] = list(counts.items())
    return table_of(name, columns, rows, TableRequest(size=1_000))


def _state_column(state: str) -> ViewColumn[CountRow]:
    return ViewColumn(state, state, lambda row: row[1].get(state, 0), "count")


_ERROR_COLUMNS = (
    ViewColumn[ErrorGroup]("stage", "stage", lambda one: one.stage),
    ViewColumn[ErrorGroup]("reason", "reason", lambda one: one.reason),
    ViewColumn[ErrorGroup]("jobs", "jobs", lambda one: one.jobs, "count"),
    ViewColumn[ErrorGroup]("example", "such as job", lambda one: one.example),
)


def label_report(page: LabelPage, jobs: RecordTable[JobSummary]) -> RenderedReport:
    """The report of a label."""
    figures = label_figures(page, jobs.rows)
    errors = table_of("errors", _ERROR_COLUMNS, page.errors, TableRequest(size=100))
    shown: list[Part] = [figures[name] for name in ("jobs", "pace") if name in figures]
    failed: list[Part] = [figures["errors"], errors] if page.errors else []
    gains: list[Part] = [figures["gains"]] if "gains" in figures else []
    sections = [
        DocumentSection("Label", [_facts(page), *_toolchains(page)]),
        DocumentSection("Progress", shown),
        DocumentSection("Gains", gains),
        DocumentSection("Devices", [count_table("devices", "device", page.by_device)]),
        DocumentSection("Solvers", [count_table("solvers", "solver", page.by_solver)]),
        DocumentSection("Errors", failed),
        DocumentSection("Jobs", [jobs]),
    ]
    return RenderedReport(
        f"Label {page.row.name}", sections, figures, [Prose(_sentence(page), page.row.aborted)]
    )


def _sentence(page: LabelPage) -> str:
    row = page.row
    states = ", ".join(f"{count} {state}" for state, count in row.by_state.items())
    head = f"{row.jobs} jobs: {states or 'none'}."
    if row.aborted:
        return f"{head} The label is aborted; skipjack resume -l {row.name} resumes it."
    return f"{head} {_expected(page.throughput)}".strip()


def _expected(pace: Throughput) -> str:
    if not pace.open:
        return ""
    if pace.seconds_left is None:
        return "No job ended recently."
    return (
        f"{pace.jobs_per_hour:.3g} jobs and {pace.trials_per_hour:.3g} trials per hour; "
        f"{pace.open} jobs are open, for about {text_of(pace.seconds_left, 's')}."
    )


def _facts(page: LabelPage) -> FactList:
    label, time = page.label, page.device_time
    budget = "" if time.budget_s is None else f" of {text_of(time.budget_s, 's')}"
    created = text_of(page.row.created, "time") if page.row.created else ""
    return FactList(
        [
            ("owner", label.owner),
            ("ticket", label.ticket),
            ("versions", label.versions),
            ("image", label.image),
            ("toolchain", label.toolchain),
            ("created", created),
            ("device time", f"{text_of(time.used_s, 's')}{budget}" if time.used_s else ""),
            ("won", text_of(time.won_ns, "ns") if time.won_ns > 0.0 else ""),
        ]
    )


def _toolchains(page: LabelPage) -> list[FactList]:
    known = [(device, ", ".join(names)) for device, names in page.toolchains.items() if names]
    return [FactList(known)] if known else []
