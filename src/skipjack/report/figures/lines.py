"""Lines and points over an axis: the best so far, curves of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from skipjack.report.figures.axes import FigureAxis, clamped, drawable, scale_of, text_of
from skipjack.report.figures.canvas import (
    MARGIN,
    Canvas,
    Frame,
    Swatch,
    draw_legend,
    framed,
    number,
    path_of,
    series_classes,
)
from skipjack.report.figures.style import Kind, dash_class
from skipjack.report.figures.thinning import thinned_line, thinned_points

Mark = Literal["line", "step", "points", "hollow"]
XY = tuple[float, float]
_TITLED = 400
"""Points of a series that say what they are when the pointer is above them."""


@dataclass(frozen=True, slots=True)
class LineSeries:
    """Values over x, as a line or as points."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]
    """None for a trial that failed: a cross at the lower edge, or a gap of a line."""
    mark: Mark = "line"
    """``step``: a value holds until the next one. ``hollow``: points of a lesser kind."""
    kind: Kind | None = None
    """What the series says; None gives it one of the colors for series."""
    low: Sequence[float | None] = ()
    """The lower ends of intervals, drawn as a band; empty or as long as `ys`."""
    high: Sequence[float | None] = ()
    texts: Sequence[str] = ()
    """What each point is, shown beside its values; empty or as long as `ys`."""
    last_text: bool = False
    """Whether the last value is written beside it."""


@dataclass(frozen=True, slots=True)
class FigureLevel:
    """A value to compare with, drawn across the figure."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class LineFigure:
    """Lines and points over an axis."""

    title: str
    x: FigureAxis
    y: FigureAxis
    series: Sequence[LineSeries]
    levels: Sequence[FigureLevel] = ()
    height: float = 260.0
    """Of the rectangle that data are drawn in, in pixels."""
    description: str = ""
    """For those who cannot see it; by default, ranges and last values."""


def draw_lines(figure: LineFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    values = [y for one in figure.series for y in (*one.ys, *one.low, *one.high)]
    values += [level.value for level in figure.levels]
    xs = [x for one in figure.series for x in one.xs]
    top = _draw_names(figure, canvas, top)
    frame = framed(
        canvas,
        top,
        figure.height,
        lambda most: scale_of(figure.x, xs, most, 0.03),
        scale_of(figure.y, values, 6, 0.08),
    )
    for place, series in enumerate(figure.series):
        _draw_band(canvas, frame, series, place)
    for number_, level in enumerate(figure.levels):
        if isfinite(level.value):
            y = frame.y(level.value)
            canvas.line(
                frame.left, y, frame.left + frame.width, y, f"level {dash_class(number_ + 1)}"
            )
    for place, series in enumerate(figure.series):
        if series.mark in ("line", "step"):
            _draw_line(canvas, frame, series, place)
        else:
            _draw_points(canvas, frame, figure, series, place)
    for place, series in enumerate(figure.series):
        _draw_last(canvas, frame, figure.y, series, place)


def _draw_names(figure: LineFigure, canvas: Canvas, top: float) -> float:
    swatches = []
    for place, series in enumerate(figure.series):
        color, dash = series_classes(place, series.kind)
        if series.mark in ("line", "step"):
            swatches.append(Swatch(series.name, f"line l-{color} {dash}", "line"))
        elif drawable(series.ys):
            filled = f"f-{color} dot" if series.mark == "points" else f"hollow l-{color}"
            swatches.append(Swatch(series.name, filled))
    if any(_failed(series) for series in figure.series):
        swatches.append(Swatch("failed", "l-failed", "cross"))
    swatches += [
        Swatch(f"{level.name}: {text_of(level.value, figure.y.unit)}", f"level {dash}", "line")
        for number_, level in enumerate(figure.levels)
        if isfinite(level.value)
        for dash in [dash_class(number_ + 1)]
    ]
    return draw_legend(canvas, MARGIN, top, swatches if len(swatches) > 1 else ()) + 6


def _failed(series: LineSeries) -> list[int]:
    if series.mark in ("line", "step"):
        return []
    return [at for at, y in enumerate(series.ys) if y is None or not isfinite(y)]


def _draw_band(canvas: Canvas, frame: Frame, series: LineSeries, place: int) -> None:
    both = [
        (x, low, high)
        for x, low, high in zip(series.xs, series.low, series.high, strict=False)
        if low is not None and high is not None and isfinite(low) and isfinite(high)
    ]
    if not both:
        return
    columns = int(frame.width)
    lower = thinned_line([(x, clamped(low)) for x, low, _ in both], columns)
    upper = thinned_line([(x, clamped(high)) for x, _, high in both], columns)
    edge = [(frame.x(x), frame.y(y)) for x, y in (*lower, *reversed(upper))]
    canvas.path(path_of(edge, closed=True), f"f-{series_classes(place, series.kind)[0]} soft")


def _draw_line(canvas: Canvas, frame: Frame, series: LineSeries, place: int) -> None:
    color, dash = series_classes(place, series.kind)
    parts: list[list[XY]] = [[]]
    for x, y in zip(series.xs, series.ys, strict=True):
        if y is not None and isfinite(y) and isfinite(x):
            parts[-1].append((x, clamped(y)))
        elif parts[-1]:
            parts.append([])
    for part in parts:
        placed = [(frame.x(x), frame.y(y)) for x, y in thinned_line(part, int(frame.width))]
        if len(placed) == 1:
            canvas.circle(*placed[0], 2.5, f"f-{color}", series.name)
        elif placed:
            path = path_of(placed) if series.mark == "line" else _steps(placed)
            canvas.path(path, f"line l-{color} {dash}".strip(), series.name)


def _steps(points: Sequence[XY]) -> str:
    text = f"M{number(points[0][0])} {number(points[0][1])}"
    for x, y in points[1:]:
        text += f"H{number(x)}V{number(y)}"
    return text


def _draw_points(
    canvas: Canvas, frame: Frame, figure: LineFigure, series: LineSeries, place: int
) -> None:
    color = series_classes(place, series.kind)[0]
    known = [
        at
        for at, (x, y) in enumerate(zip(series.xs, series.ys, strict=True))
        if y is not None and isfinite(y) and isfinite(x)
    ]
    spots = [(frame.x(series.xs[at]), frame.y(series.ys[at] or 0.0)) for at in known]
    kept = thinned_points(spots)
    if len(kept) < len(spots):
        canvas.remarks.append(
            f"{len(kept)} of {len(spots)} points of {series.name} are drawn, with all extremes"
        )
    if len(kept) > _TITLED and series.mark == "points":
        path = "".join(f"M{number(spots[at][0])} {number(spots[at][1])}h0" for at in kept)
        canvas.path(path, f"dots l-{color}", series.name)
    else:
        radius = 3.0 if len(kept) > 100 else 3.8
        classes = f"f-{color} dot" if series.mark == "points" else f"hollow l-{color}"
        for at in kept:
            title = _point_text(figure, series, known[at]) if len(kept) <= _TITLED else ""
            canvas.circle(*spots[at], radius, classes, title)
    failed = [at for at in _failed(series) if isfinite(series.xs[at])]
    edge = [(frame.x(series.xs[at]), frame.bottom - 6.0) for at in failed]
    shown = thinned_points(edge)
    for at in shown:
        title = _point_text(figure, series, failed[at]) if len(shown) <= _TITLED else ""
        canvas.cross(*edge[at], 3.5, "l-failed", title)
    if len(shown) < len(edge):
        canvas.remarks.append(f"{len(shown)} of {len(edge)} failures are marked")


def _point_text(figure: LineFigure, series: LineSeries, at: int) -> str:
    x, y = series.xs[at], series.ys[at]
    head = f"{figure.x.name.partition(' (')[0]} {text_of(x, figure.x.unit)}"
    value = "failed" if y is None or not isfinite(y) else text_of(y, figure.y.unit)
    more = f", {series.texts[at]}" if at < len(series.texts) and series.texts[at] else ""
    return f"{head}: {value}{more}"


def _draw_last(
    canvas: Canvas, frame: Frame, axis: FigureAxis, series: LineSeries, place: int
) -> None:
    known = [
        (x, y)
        for x, y in zip(series.xs, series.ys, strict=True)
        if y is not None and isfinite(y) and isfinite(x)
    ]
    if series.last_text and known:
        x, y = frame.x(known[-1][0]), frame.y(known[-1][1])
        above = y - 7 if y - 20 > frame.top else y + 16
        color = series_classes(place, series.kind)[0]
        text = text_of(known[-1][1], axis.unit)
        canvas.text(x, above, text, f"strong halo t-{color}", "end")


def describe_lines(figure: LineFigure) -> str:
    """The ranges and last values of the series."""
    sentences = []
    for series in figure.series:
        known = drawable(series.ys)
        if not known:
            sentences.append(f"{series.name}: no values.")
            continue
        low, high, last = (
            text_of(value, figure.y.unit) for value in (min(known), max(known), known[-1])
        )
        sentences.append(f"{series.name}: {len(known)} values from {low} to {high}, last {last}.")
        if failed := len(_failed(series)):
            sentences.append(f"{failed} failed.")
    sentences += [f"{one.name}: {text_of(one.value, figure.y.unit)}." for one in figure.levels]
    return " ".join(sentences)
