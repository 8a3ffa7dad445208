"""Bars with names: times of solvers with their intervals, the importance of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.report.figures.axes import FigureAxis, drawable, scale_of, text_of
from skipjack.report.figures.canvas import (
    LINE,
    MARGIN,
    Canvas,
    fitted,
    path_of,
    text_width,
)
from skipjack.report.figures.style import Kind

MOST_BARS = 200
"""More bars are not drawn; the description says how many there are."""
_BAR, _STEP = 15.0, 22.0


@dataclass(frozen=True, slots=True)
class FigureBar:
    """A bar."""

    name: str
    value: float | None
    """None where there is no value; `note` says why."""
    low: float | None = None
    """The lower end of the interval."""
    high: float | None = None
    note: str = ""
    """Written after the bar, in place of the value."""
    kind: Kind = "plain"


@dataclass(frozen=True, slots=True)
class BarFigure:
    """Bars below each other, in the given order."""

    title: str
    x: FigureAxis
    bars: Sequence[FigureBar]
    description: str = ""


def draw_bars(figure: BarFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    bars = figure.bars[:MOST_BARS]
    if len(bars) < len(figure.bars):
        canvas.remarks.append(f"{len(bars)} of {len(figure.bars)} bars are drawn")
    values = [value for one in bars for value in (one.value, one.low, one.high)]
    axis = FigureAxis(figure.x.name, figure.x.unit, figure.x.log or False, figure.x.whole, True)
    names = max((text_width(fitted(one.name, 240)) for one in bars), default=0.0)
    left = MARGIN + names + 8
    width = _bars_width(figure, bars, axis, canvas.width - left - MARGIN - 8)
    scale = scale_of(axis, values, max(2, int(width / 90)), 0.0)
    bottom = top + _STEP * len(bars) + 6
    for tick in scale.ticks:
        x = left + scale.place(tick.value) * width
        canvas.line(x, top, x, bottom, "grid")
        canvas.text(x, bottom + 15, tick.text, "small faint", "middle", size=11)
    zero = left + (0.0 if scale.log else scale.place(0.0)) * width
    for place, one in enumerate(bars):
        y = top + 6 + _STEP * place
        middle = y + _BAR / 2
        canvas.text(left - 8, middle, one.name, "", "end", 240, middle=True)
        end = zero
        if one.value is not None and isfinite(one.value):
            end = left + scale.place(one.value) * width
            title = f"{one.name}: {_note(figure, one)}"
            start, length = min(zero, end), abs(end - zero)
            canvas.rectangle(start, y, max(length, 1.0), _BAR, f"f-{one.kind}", title, radius=1.5)
        right = max(end, zero)
        if one.low is not None and one.high is not None and isfinite(one.low + one.high):
            low, high = (left + scale.place(value) * width for value in (one.low, one.high))
            canvas.line(low, middle, high, middle, "whisker")
            canvas.line(low, middle - 4, low, middle + 4, "whisker")
            canvas.line(high, middle - 4, high, middle + 4, "whisker")
            right = max(right, high)
        classes = "small t-failed" if one.kind == "failed" else "small"
        room = canvas.width - right - 8
        canvas.text(right + 6, middle, _note(figure, one), classes, room=room, size=11, middle=True)
    canvas.path(path_of([(zero, top), (zero, bottom)]), "axis")
    canvas.text(left + width / 2, bottom + 15 + LINE, scale.name, "small", "middle", size=11)
    canvas.height = bottom + 2 * LINE + 8


def _bars_width(
    figure: BarFigure, bars: Sequence[FigureBar], axis: FigureAxis, room: float
) -> float:
    """The most that leaves each bar room for its note."""
    values = [value for one in bars for value in (one.value, one.low, one.high)]
    scale = scale_of(axis, values, 5, 0.0)
    width = room
    for one in bars:
        ends = drawable((one.value, one.high, 0.0))
        share = max((scale.place(end) for end in ends), default=0.0)
        left = room - min(text_width(_note(figure, one), 11), room * 0.6)
        width = min(width, left / max(share, 0.05))
    return max(width, 80.0)


def _note(figure: BarFigure, one: FigureBar) -> str:
    if one.note:
        return one.note
    return "" if one.value is None else text_of(one.value, figure.x.unit)


def describe_bars(figure: BarFigure) -> str:
    """The bars in order."""
    some = [f"{one.name}: {_note(figure, one) or 'no value'}." for one in figure.bars[:12]]
    left = len(figure.bars) - len(some)
    return " ".join([*some, *([f"And {left} more."] if left else [])])
