"""Two objectives against each other: all points, and those that no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.report.figures.axes import FigureAxis, scale_of, text_of
from skipjack.report.figures.canvas import (
    MARGIN,
    Canvas,
    Frame,
    Swatch,
    draw_legend,
    framed,
    number,
    path_of,
)
from skipjack.report.figures.thinning import thinned_line, thinned_points

_NAMED = 6
"""If the front has more points, only the first and the last are named."""
_TITLED = 400


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A point with both objectives."""

    x: float
    y: float
    name: str
    front: bool = False
    """Whether no other point beats it in both."""


@dataclass(frozen=True, slots=True)
class ParetoFigure:
    """All points of two objectives, with the front as a line."""

    title: str
    x: FigureAxis
    y: FigureAxis
    points: Sequence[ParetoPoint]
    description: str = ""


def draw_pareto(figure: ParetoFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    points = [one for one in figure.points if isfinite(one.x) and isfinite(one.y)]
    front = sorted((one for one in points if one.front), key=lambda one: (one.x, one.y))
    swatches = (Swatch("a point", "f-plain dot"), Swatch("the front", "line l-best", "line"))
    top = draw_legend(canvas, MARGIN, top, swatches) + 6
    xs, ys = [one.x for one in points], [one.y for one in points]
    frame = framed(
        canvas,
        top,
        300.0,
        lambda most: scale_of(figure.x, xs, most, 0.06),
        scale_of(figure.y, ys, 6, 0.08),
    )
    if front:
        line = thinned_line([(one.x, one.y) for one in front], int(frame.width))
        canvas.path(path_of((frame.x(x), frame.y(y)) for x, y in line), "line l-best")
    others = [one for one in points if not one.front]
    spots = [(frame.x(one.x), frame.y(one.y)) for one in others]
    kept = thinned_points(spots)
    if len(kept) > _TITLED:
        path = "".join(f"M{number(spots[at][0])} {number(spots[at][1])}h0" for at in kept)
        canvas.path(path, "dots l-plain")
    else:
        for at in kept:
            canvas.circle(*spots[at], 3.5, "f-plain dot", _title(figure, others[at]))
    if len(kept) < len(spots):
        canvas.remarks.append(f"{len(kept)} of {len(spots)} points are drawn")
    spots = [(frame.x(one.x), frame.y(one.y)) for one in front]
    kept = thinned_points(spots, _TITLED)
    for at in kept:
        canvas.circle(*spots[at], 4.5, "f-best", _title(figure, front[at]))
    if len(kept) < len(front):
        canvas.remarks.append(f"{len(kept)} of {len(front)} points of the front are marked")
    _draw_point_names(canvas, frame, front if len(front) <= _NAMED else [front[0], front[-1]])


def _draw_point_names(canvas: Canvas, frame: Frame, front: Sequence[ParetoPoint]) -> None:
    middle = frame.left + frame.width / 2
    used: list[float] = []
    heights = [frame.y(one.y) for one in front]
    for at, one in enumerate(front):
        x, y = frame.x(one.x), heights[at]
        # Names extend towards the middle, on the side where the line to the next point is not;
        # they are left out where one would cover another.
        beside = heights[min(max(at + (1 if x < middle else -1), 0), len(front) - 1)]
        below = beside < y or y - frame.top < 20
        base = y + 18 if below and y + 20 < frame.bottom else y - 8
        if any(abs(base - other) < 13 for other in used) or base > frame.bottom - 2:
            continue
        used.append(base)
        room, left = frame.width * 0.45, x < middle
        canvas.text(x, base, one.name, "small halo", "start" if left else "end", room, 11)


def _title(figure: ParetoFigure, one: ParetoPoint) -> str:
    x, y = text_of(one.x, figure.x.unit), text_of(one.y, figure.y.unit)
    return f"{one.name}: {figure.x.name} {x}, {figure.y.name} {y}"


def describe_pareto(figure: ParetoFigure) -> str:
    """The number of points, and those of the front."""
    front = [one for one in figure.points if one.front]
    head = f"{len(figure.points)} points, {len(front)} on the front."
    return " ".join([head, *(f"{_title(figure, one)}." for one in front[:10])])
