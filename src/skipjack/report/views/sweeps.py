"""A sweep: its runs, its parameters, its front and its loads, as figures and as a report."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.app.views import LoadView, RecordTable, SweepPage, TableRequest, ViewColumn, table_of
from skipjack.core import Config, Objective
from skipjack.report.documents import CodeText, DocumentSection, FactList, Part, Prose
from skipjack.report.figures import (
    Figure,
    FigureAxis,
    FigureLevel,
    HeatMapFigure,
    LineFigure,
    LineSeries,
    ParallelAxis,
    ParallelFigure,
    ParallelLine,
    ParetoFigure,
    ParetoPoint,
)
from skipjack.report.numbers import metric_text
from skipjack.report.sweep import (
    FailedPoint,
    FailureGroup,
    best_settings,
    facts,
    failures,
    gain_sentences,
    headline,
    metric_name,
    overlay_text,
    remarks,
)
from skipjack.report.views.problems import importance_figure
from skipjack.report.views.rendered_report import RenderedReport
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import (
    RANGE,
    SCREEN,
    ParameterAxis,
    PointSummary,
    maximised,
    one_line,
    parameter_names,
    point_text,
    setting_text,
    usable,
)

_ALL = TableRequest(size=1_000)


def value_name(result: SweepResult) -> str:
    """``samples_per_second (more is better)``."""
    return f"{metric_name(result)} ({'more' if maximised(result) else 'less'} is better)"


def sweep_figures(page: SweepPage) -> dict[str, Figure]:
    """The figures of a sweep, by name; those that would be empty are left out."""
    if not page.result.trials:
        return {}
    found: dict[str, Figure] = {}
    if page.history.runs:
        found["best-so-far"] = runs_figure(page)
        if page.history.ends_s[-1] > 0.0:
            found["best-so-far-by-time"] = runs_figure(page, by_time=True)
    if page.heat is not None and page.axes:
        found["heat-map"] = heat_map_figure(page)
    if page.axes:
        found["parallel-coordinates"] = points_figure(page)
    if any(one.share > 0.0 for one in page.effects):
        found["importance"] = importance_figure(page.effects)
    if page.front:
        found["front"] = front_figure(page)
    if page.load is not None:
        found["load"] = load_figure(page.load)
    return found


def runs_figure(page: SweepPage, title: str = "Best so far", by_time: bool = False) -> LineFigure:
    """Each run's value and the best until then, over runs or over time."""
    runs = page.history.runs
    xs = page.history.ends_s if by_time else [float(at) for at in range(1, len(runs) + 1)]
    values = [run.value if usable(run) else None for run in runs]
    series = []
    for short, name in ((False, "a run"), (True, "a short run")):
        some = [at for at, run in enumerate(runs) if (run.purpose == SCREEN) is short]
        if some:
            series.append(
                LineSeries(
                    name,
                    [xs[at] for at in some],
                    [values[at] for at in some],
                    "hollow" if short else "points",
                    "plain",
                    texts=[runs[at].reason or point_text(runs[at].point) for at in some],
                )
            )
    best = LineSeries("best so far", xs, page.history.best, "step", "best", last_text=True)
    level = page.result.baseline_value
    return LineFigure(
        f"{title}, by time" if by_time else title,
        FigureAxis("time of building and running", "s", log=False)
        if by_time
        else FigureAxis("run", whole=True),
        FigureAxis(value_name(page.result)),
        [*series, best],
        [] if level is None else [FigureLevel("baseline", level)],
    )


def heat_map_figure(page: SweepPage, title: str = "Median of points") -> HeatMapFigure:
    """The median of all points at each pair of values of two parameters."""
    heat = page.heat
    assert heat is not None
    best = page.result.best
    framed = None if best is None else _cell_of(best, heat.across, heat.up)
    return HeatMapFigure(
        title,
        heat.across.name,
        heat.up.name,
        _labels(heat.across),
        _labels(heat.up),
        {(x, y): value for x, y, value in heat.cells},
        value_name(page.result),
        better="more" if maximised(page.result) else "less",
        best=framed,
    )


def _cell_of(point: Config, across: ParameterAxis, up: ParameterAxis) -> tuple[int, int] | None:
    """The cell of a point, which may not be among the runs."""
    try:
        return across.place(point), up.place(point)
    except KeyError:
        return None


def _labels(axis: ParameterAxis) -> list[str]:
    return [_label(text) for text in axis.labels]


def _label(text: str) -> str:
    """Ranges of numbers with few digits."""
    first, to, last = text.partition(RANGE)
    try:
        return f"{metric_text(float(first))}{RANGE}{metric_text(float(last))}" if to else text
    except ValueError:
        return text


def points_figure(
    page: SweepPage, title: str = "All points, the brighter the better"
) -> ParallelFigure:
    """A line for each point through its parameters."""
    known = {one.point.key for one in page.points}
    lines = [_line(page, one.point, one.value) for one in page.points]
    failed = {run.point.key: run.point for run in page.result.trials if run.point.key not in known}
    lines += [_line(page, point, None) for point in failed.values()]
    return ParallelFigure(
        title,
        [ParallelAxis(axis.name, _labels(axis)) for axis in page.axes],
        lines,
        FigureAxis(value_name(page.result), log=False),
        maximised(page.result),
    )


def _line(page: SweepPage, point: Config, value: float | None) -> ParallelLine:
    places = [axis.place(point) for axis in page.axes]
    best = value is not None and point == page.result.best
    return ParallelLine(places, value, point_text(point), best)


def front_figure(
    page: SweepPage, title: str = "The front: points that no other beats in both"
) -> ParetoFigure:
    """The first two objectives of all points."""
    front = {one.point.key for one in page.front}
    first, second = page.result.objectives[:2]
    return ParetoFigure(
        title,
        _objective_axis(first),
        _objective_axis(second),
        [
            ParetoPoint(one.values[0], one.values[1], point_text(one.point), one.point.key in front)
            for one in page.points
            if one.values[0] is not None and one.values[1] is not None
        ],
    )


def _objective_axis(objective: Objective) -> FigureAxis:
    better = "more" if objective.direction == "max" else "less"
    return FigureAxis(f"{one_line(objective.metric)} ({better} is better)")


def load_figure(load: LoadView, title: str = "Which loads held") -> LineFigure:
    """How many runs held each load, and how many did not."""
    loads = [one.load for one in load.steps]
    return LineFigure(
        title,
        FigureAxis(load.parameter),
        FigureAxis("runs", "count", log=False, whole=True, zero=True),
        [
            LineSeries("held", loads, [float(one.held) for one in load.steps], "points", "good"),
            LineSeries(
                "did not", loads, [float(one.failed) for one in load.steps], "points", "failed"
            ),
        ],
        height=140.0,
        description=(
            f"The largest load that held is {metric_text(load.holds)}, the least that did not "
            f"{metric_text(load.breaks)}."
        ),
    )


# The report of a sweep.


def _setting(point: Config, name: str) -> str:
    return one_line(setting_text(point[name])) if name in point else ""


def point_columns(result: SweepResult) -> tuple[ViewColumn[PointSummary], ...]:
    """The value, spread and runs of a point, and a column for each parameter."""
    return (
        ViewColumn("value", metric_name(result), lambda one: one.value),
        ViewColumn("spread", "spread", lambda one: one.spread if one.good > 1 else None, "share"),
        ViewColumn("runs", "runs", lambda one: f"{one.good} of {one.runs}"),
        *(_parameter_column(name) for name in parameter_names(result)),
    )


def _parameter_column(name: str) -> ViewColumn[PointSummary]:
    return ViewColumn(name, one_line(name), lambda one: _setting(one.point, name))


def _front_table(page: SweepPage) -> RecordTable[PointSummary]:
    objectives = page.result.objectives
    columns = (
        *(
            _objective_column(place, f"{one_line(one.metric)} ({one.direction})")
            for place, one in enumerate(objectives)
        ),
        *(_parameter_column(name) for name in parameter_names(page.result)),
    )
    return table_of("points of the front", columns, page.front, _ALL)


def _objective_column(place: int, title: str) -> ViewColumn[PointSummary]:
    return ViewColumn(f"objective_{place}", title, lambda one: one.values[place])


_FAILURE_COLUMNS = (
    ViewColumn[FailedPoint]("point", "point", lambda one: one.point),
    ViewColumn[FailedPoint]("reason", "reason", lambda one: one.reason),
    ViewColumn[FailedPoint]("runs", "runs", lambda one: one.runs, "count"),
    ViewColumn[FailedPoint]("log", "log", lambda one: one.log),
)


def sweep_report(page: SweepPage) -> RenderedReport:
    """The report of a sweep."""
    result = page.result
    figures = sweep_figures(page)
    sentences = [*gain_sentences(result), facts(result)]
    lead: list[Part] = [*map(Prose, sentences)]
    lead += [Prose(line, warning=True) for line in remarks(result)]
    drawn = [figure for name, figure in figures.items() if name != "front"]
    front: list[Part] = [figures["front"], _front_table(page)] if page.front else []
    points = table_of("points", point_columns(result), page.points, _ALL)
    sections = [
        DocumentSection("The best", _best(result)),
        DocumentSection("Figures", drawn),
        DocumentSection("The front", front),
        DocumentSection("Points", [points] if page.points else []),
        *(_failure_section(group) for group in failures(result)),
        *_paste(result),
    ]
    return RenderedReport(headline(result), sections, figures, lead)


def _best(result: SweepResult) -> Sequence[Part]:
    settings = [
        (one.name, f"{one.value} (was {one.before})" if one.changed else one.value)
        for one in best_settings(result)
    ]
    return [FactList(settings)] if settings else []


def _failure_section(group: FailureGroup) -> DocumentSection:
    return DocumentSection(
        group.title, [table_of("failed points", _FAILURE_COLUMNS, group.failures, _ALL)]
    )


def _paste(result: SweepResult) -> list[DocumentSection]:
    if result.best is None:
        return []
    conf = "\n".join(one_line(line) for line in result.user_conf)
    return [
        DocumentSection("For user.conf", [CodeText(conf)] if conf else []),
        DocumentSection("To merge into the config", [CodeText(overlay_text(result))]),
    ]
