"""One step of a program before and after tuning: its operations in order, to one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.report.figures.axes import FigureAxis, scale_of, text_of
from skipjack.report.figures.canvas import (
    LINE,
    MARGIN,
    Canvas,
    Swatch,
    draw_legend,
    fitted,
    path_of,
    text_width,
)
from skipjack.report.figures.style import Kind

_BAR, _BETWEEN = 44.0, 46.0
_JOINED = 0.02
"""The part of the step that an operation must take for its two bars to be joined."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """An operation, and its time in both steps."""

    name: str
    before: float
    after: float
    kind: Kind = "plain"
    """What runs it in the tuned step."""


@dataclass(frozen=True, slots=True)
class StepFigure:
    """A step before and after."""

    title: str
    x: FigureAxis
    parts: Sequence[StepPart]
    names: tuple[str, str] = ("before", "after")
    kinds: Sequence[tuple[Kind, str]] = ()
    """What the colors say, in words."""
    description: str = ""


def draw_step(figure: StepFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    parts = [one for one in figure.parts if isfinite(one.before) and isfinite(one.after)]
    swatches = [Swatch(name, f"f-{kind}", "area") for kind, name in figure.kinds]
    top = draw_legend(canvas, MARGIN, top, swatches) + 6
    sums = [sum(one.before for one in parts), sum(one.after for one in parts)]
    labels = [
        [name, text_of(total, figure.x.unit)]
        for name, total in zip(figure.names, sums, strict=True)
    ]
    widest = max(text_width(fitted(text, 200)) for lines in labels for text in lines)
    left = MARGIN + widest + 10
    width = canvas.width - left - 2 * MARGIN
    axis = FigureAxis(figure.x.name, figure.x.unit, False, False, True)
    scale = scale_of(axis, [*sums, 0.0], max(2, int(width / 90)), 0.0)
    tops = (top, top + _BAR + _BETWEEN)
    bottom = tops[1] + _BAR + 8
    for tick in scale.ticks:
        x = left + scale.place(tick.value) * width
        canvas.line(x, top, x, bottom, "grid")
        canvas.text(x, bottom + 15, tick.text, "small faint", "middle", size=11)
    for y, (name, total) in zip(tops, labels, strict=True):
        canvas.text(left - 10, y + _BAR / 2 - 3, name, "strong", "end", 200)
        canvas.text(left - 10, y + _BAR / 2 + 13, total, "faint", "end", 200)
    _draw_parts(figure, parts, canvas, (left, width), tops, scale.high)
    canvas.path(path_of([(left, bottom), (left + width, bottom)]), "axis")
    canvas.text(left + width / 2, bottom + 15 + LINE, scale.name, "small", "middle", size=11)
    canvas.height = bottom + 2 * LINE + 8


def _draw_parts(
    figure: StepFigure,
    parts: Sequence[StepPart],
    canvas: Canvas,
    place: tuple[float, float],
    tops: tuple[float, float],
    high: float,
) -> None:
    left, width = place
    at = [0.0, 0.0]
    for one in parts:
        spans = []
        for row, value in enumerate((one.before, one.after)):
            start = left + at[row] / high * width
            at[row] += max(value, 0.0)
            spans.append((start, left + at[row] / high * width))
        before, after = spans
        if before[1] - before[0] > _JOINED * width:
            corners = [
                *((before[0], tops[0] + _BAR), (before[1], tops[0] + _BAR)),
                *((after[1], tops[1]), (after[0], tops[1])),
            ]
            canvas.path(path_of(corners, closed=True), "f-plain soft")
        title = (
            f"{one.name}: {text_of(one.before, figure.x.unit)}, "
            f"then {text_of(one.after, figure.x.unit)}"
        )
        for row, (start, end) in enumerate(spans):
            kind = one.kind if row else "plain"
            canvas.rectangle(start, tops[row], end - start, _BAR, f"f-{kind} edge", title)
        _draw_part_texts(one, canvas, before, after, tops)


def _draw_part_texts(
    one: StepPart,
    canvas: Canvas,
    before: tuple[float, float],
    after: tuple[float, float],
    tops: tuple[float, float],
) -> None:
    """The name in the upper bar, and the gain in the lower one, where they fit."""
    room = before[1] - before[0] - 4
    words = one.name.split(" ")
    if room > 22 and max(text_width(word, 10) for word in words) <= room:
        shown = words if len(words) <= 3 else [*words[:2], f"{words[2]} …"]
        for line, word in enumerate(shown):
            y = tops[0] + _BAR / 2 + 12 * (line - (min(len(words), 3) - 1) / 2)
            middle = (before[0] + before[1]) / 2
            canvas.text(middle, y, word, "small paper", "middle", size=10, middle=True)
    gain = f"{one.before / one.after:.1f}x" if one.after > 0.0 else ""
    if one.kind == "best" and gain and after[1] - after[0] > text_width(gain, 10) + 2:
        middle = (after[0] + after[1]) / 2
        y = tops[1] + _BAR / 2
        canvas.text(middle, y, gain, "small paper", "middle", size=10, middle=True)


def describe_step(figure: StepFigure) -> str:
    """The sums, and the longest operations."""
    before, after = (
        text_of(sum(value for value in values if isfinite(value)), figure.x.unit)
        for values in (
            [one.before for one in figure.parts],
            [one.after for one in figure.parts],
        )
    )
    longest = sorted(figure.parts, key=lambda one: -one.before)[:8]
    some = [
        f"{one.name}: {text_of(one.before, figure.x.unit)}, then "
        f"{text_of(one.after, figure.x.unit)}."
        for one in longest
    ]
    head = f"{figure.names[0]}: {before}. {figure.names[1]}: {after}."
    return " ".join([head, *some])
