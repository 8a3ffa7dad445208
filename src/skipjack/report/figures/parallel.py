"""Parallel coordinates: a vertical axis for each setting, a line for each config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.report.figures.axes import FigureAxis, Scale, drawable, scale_of, text_of
from skipjack.report.figures.canvas import (
    LINE,
    MARGIN,
    Canvas,
    Swatch,
    draw_legend,
    path_of,
    text_width,
)
from skipjack.report.figures.style import shade

MOST_LINES = 1_000
_TITLED = 200
_HEIGHT = 280.0


@dataclass(frozen=True, slots=True)
class ParallelAxis:
    """A setting, and texts of its values from bottom to top."""

    name: str
    labels: Sequence[str]

    def share(self, place: int) -> float:
        """The height of a value from 0 to 1."""
        return place / (len(self.labels) - 1) if len(self.labels) > 1 else 0.5


@dataclass(frozen=True, slots=True)
class ParallelLine:
    """A config: the index of its value on each axis, and how fast it was."""

    places: Sequence[int]
    value: float | None
    """None if it failed: the line ends before the last axis."""
    name: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class ParallelFigure:
    """The configs that were tried; the brighter a line the better."""

    title: str
    axes: Sequence[ParallelAxis]
    lines: Sequence[ParallelLine]
    value: FigureAxis
    """The last axis, of the values."""
    more_is_better: bool = False
    description: str = ""


def chosen_lines(figure: ParallelFigure, most: int = MOST_LINES) -> list[ParallelLine]:
    """The lines to draw, worst first: if there are many, evenly by rank, best and worst always."""
    known = [one for one in figure.lines if one.value is not None and isfinite(one.value)]
    known.sort(key=lambda one: one.value or 0.0, reverse=not figure.more_is_better)
    failed = [one for one in figure.lines if one.value is None or not isfinite(one.value)]
    share = most * len(known) // max(len(figure.lines), 1)
    return [*_even(failed, most - share), *_even(known, share)]


def _even(lines: Sequence[ParallelLine], most: int) -> list[ParallelLine]:
    if len(lines) <= most:
        return list(lines)
    most = max(most, 2)
    chosen = [lines[at * (len(lines) - 1) // (most - 1)] for at in range(most)]
    return [*(one for one in lines if one.best and one not in chosen), *chosen]


def draw_parallel(figure: ParallelFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    lines = chosen_lines(figure)
    if len(lines) < len(figure.lines):
        canvas.remarks.append(f"{len(lines)} of {len(figure.lines)} lines are drawn")
    scale = scale_of(figure.value, [one.value for one in figure.lines], 6, 0.0)
    top = _draw_names(figure, canvas, top)
    ends = [text_width(tick.text, 11) for tick in scale.ticks]
    left, right = MARGIN + 14, canvas.width - MARGIN - max([*ends, 40.0]) - 10
    count = len(figure.axes)
    gap = (right - left) / max(count, 1)
    spots = [left + gap * at for at in range(count + 1)]
    top += 2 * LINE
    bottom = top + _HEIGHT
    titled = len(lines) <= _TITLED
    for one in sorted(lines, key=lambda one: one.best):
        _draw_config(figure, canvas, one, spots, (top, bottom), scale, titled)
    for at, axis in enumerate(figure.axes):
        _draw_axis(canvas, spots[at], (top, bottom))
        for place in _spaced(len(axis.labels)):
            y = bottom - axis.share(place) * _HEIGHT
            _draw_label(canvas, spots[at] + 5, y, axis.labels[place], gap - 14)
        _draw_axis_name(canvas, spots[at], top, axis.name, gap, at)
    _draw_axis(canvas, spots[-1], (top, bottom))
    for tick in scale.ticks:
        y = bottom - scale.place(tick.value) * _HEIGHT
        canvas.text(spots[-1] + 6, y, tick.text, "small", size=11, middle=True)
    _draw_axis_name(canvas, spots[-1], top, scale.name, gap, count, last=True)
    canvas.height = bottom + LINE


def _draw_names(figure: ParallelFigure, canvas: Canvas, top: float) -> float:
    swatches = []
    if any(one.best for one in figure.lines):
        swatches.append(Swatch("the best", "line thick l-best", "line"))
    if any(one.value is None for one in figure.lines):
        swatches.append(Swatch("failed", "line thin l-failed d2", "line"))
    return draw_legend(canvas, MARGIN, top, swatches)


def _draw_config(
    figure: ParallelFigure,
    canvas: Canvas,
    one: ParallelLine,
    spots: Sequence[float],
    edges: tuple[float, float],
    scale: Scale,
    titled: bool,
) -> None:
    top, bottom = edges
    heights = [axis.share(place) for axis, place in zip(figure.axes, one.places, strict=True)]
    known = one.value is not None and isfinite(one.value)
    if known:
        heights.append(scale.place(one.value or 0.0))
    points = [
        (x, bottom - height * (bottom - top)) for x, height in zip(spots, heights, strict=False)
    ]
    if not points:
        return
    title = f"{one.name}: {text_of(one.value, figure.value.unit) if known else 'failed'}"
    title = title if titled or one.best else ""
    if one.best:
        canvas.path(path_of(points), "line thick l-best", title)
        for x, y in points:
            canvas.circle(x, y, 4, "f-best")
    elif known:
        share = heights[-1] if figure.more_is_better else 1.0 - heights[-1]
        # The brightest yellow is hard to see on white, the darkest blue on black.
        canvas.path(path_of(points), "line thin half", title, shade(0.15 + 0.7 * share)[0])
    else:
        canvas.path(path_of(points), "line thin l-failed d2 half", title)


def _draw_axis(canvas: Canvas, x: float, edges: tuple[float, float]) -> None:
    canvas.line(x, edges[0], x, edges[1], "level")


def _draw_label(canvas: Canvas, x: float, y: float, text: str, room: float) -> None:
    canvas.text(x, y, text, "small halo", room=max(room, 24.0), size=11, middle=True)


def _draw_axis_name(
    canvas: Canvas, x: float, top: float, name: str, gap: float, at: int, last: bool = False
) -> None:
    """Names alternate between two lines, so that each has the room of two axes."""
    y = top - 8 - (LINE if at % 2 else 0)
    if last:
        canvas.text(canvas.width - MARGIN, y, name, "small strong", "end", 1.8 * gap, 11)
    else:
        anchor = "start" if at == 0 else "middle"
        canvas.text(
            MARGIN if at == 0 else x, y, name, "small strong", anchor, max(1.8 * gap, 30), 11
        )


def _spaced(count: int) -> list[int]:
    """Indices of labels that have room, with the first and the last."""
    most = int(_HEIGHT / 15)
    if count <= most:
        return list(range(count))
    return sorted({at * (count - 1) // (most - 1) for at in range(most)})


def describe_parallel(figure: ParallelFigure) -> str:
    """The settings, the range of values, and the best config."""
    known = drawable(one.value for one in figure.lines)
    names = ", ".join(axis.name for axis in figure.axes)
    head = f"{len(figure.lines)} configs of {names}; {len(figure.lines) - len(known)} failed."
    if known:
        low, high = (text_of(value, figure.value.unit) for value in (min(known), max(known)))
        head += f" Values from {low} to {high}."
    best = next((one for one in figure.lines if one.best), None)
    return f"{head} The best: {best.name}." if best else head
