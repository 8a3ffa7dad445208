"""Data of curves that grow while one looks at them, as the browser draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from urllib.parse import urlencode

from skipjack.app.views import (
    Unit,
    UnknownNameError,
    Workspace,
    search_trials,
    training_page,
)
from skipjack.report.figures import LineFigure, thinned_line
from skipjack.report.views import curve_figures

_MOST_POINTS = 4_000


@dataclass(frozen=True, slots=True)
class CurveSeries:
    """A line or points over the x values of its curve."""

    name: str
    kind: str
    """Names its color: a kind of `skipjack.report.figures`; empty: one by its place."""
    values: Sequence[float | None]
    points: bool = False
    """Whether values are points without a line."""
    steps: bool = False
    """Whether a value holds until the next one."""


@dataclass(frozen=True, slots=True)
class CurveData:
    """A curve."""

    title: str
    x_title: str
    y_title: str
    unit: Unit
    x: Sequence[float]
    series: Sequence[CurveSeries]
    logarithmic: bool = False


def search_curve_path(problem: str, search: str) -> str:
    """The address of the curve of a search."""
    query = urlencode({"problem": problem, "search": search})
    return f"/api/v1/curves/search?{query}"


def search_curve(workspace: Workspace, problem: str, search: str) -> CurveData:
    """The time of each trial of a search, and the best until then."""
    summary, trials = search_trials(workspace, problem, search)
    places = _drawn([one.number for one in trials], [one.value for one in trials])
    kept = [trials[at] for at in places]
    unit: Unit = "ns" if summary.objective.startswith("time_ns") else ""
    values = [one.value for one in kept]
    return CurveData(
        "Best so far",
        "trial",
        "time of a call" if unit == "ns" else summary.objective.partition(":")[0],
        unit,
        [one.number for one in kept],
        [
            CurveSeries("a trial", "plain", values, points=True),
            CurveSeries("best so far", "best", [one.best for one in kept], steps=True),
        ],
        logarithmic=_is_wide(values),
    )


def training_curve_path(run: str, curve: str) -> str:
    """The address of a curve of a training run."""
    return f"/api/v1/curves/training?{urlencode({'run': run, 'curve': curve})}"


def training_curve(workspace: Workspace, run: str, curve: str) -> CurveData:
    """A curve of a training run, by the name that its figure has."""
    page = training_page(workspace, run)
    figure = curve_figures(page.curves).get(curve)
    if not isinstance(figure, LineFigure):
        raise UnknownNameError(f"run {run} has no curve {curve!r}")
    (series,) = figure.series
    places = _drawn(series.xs, series.ys)
    line = CurveSeries(series.name, "", [series.ys[at] for at in places])
    xs = [series.xs[at] for at in places]
    return CurveData(figure.title, figure.x.name, figure.y.name, figure.y.unit, xs, [line])


def _drawn(xs: Sequence[float], ys: Sequence[float | None]) -> Sequence[int]:
    """The places of points that can be told apart, with all extremes."""
    if len(xs) <= _MOST_POINTS:
        return range(len(xs))
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None and isfinite(y)]
    kept = {x for x, _ in thinned_line(points, _MOST_POINTS // 4)}
    return [at for at, x in enumerate(xs) if x in kept]


def _is_wide(values: Sequence[float | None]) -> bool:
    known = [one for one in values if one is not None and isfinite(one)]
    return bool(known) and min(known) > 0.0 and max(known) > 50.0 * min(known)
