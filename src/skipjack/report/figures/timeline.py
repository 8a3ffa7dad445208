"""What happened when: spans of time in rows, and states of jobs over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.report.figures.axes import FigureAxis, drawable, scale_of, text_of
from skipjack.report.figures.canvas import (
    LINE,
    MARGIN,
    Canvas,
    Swatch,
    draw_legend,
    fitted,
    framed,
    path_of,
    text_width,
)
from skipjack.report.figures.style import Kind

MOST_ROWS = 200
MOST_SPANS = 3_000
_ROW, _BAR = 20.0, 13.0
_TITLED = 1_000


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """From when to when, and what it was."""

    start: float
    end: float
    name: str = ""
    kind: Kind = "running"


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The spans of a machine or job."""

    name: str
    spans: Sequence[TimelineSpan]


@dataclass(frozen=True, slots=True)
class TimelineFigure:
    """Rows of spans."""

    title: str
    x: FigureAxis
    rows: Sequence[TimelineRow]
    kinds: Sequence[tuple[Kind, str]] = ()
    """What the colors say, in words."""
    description: str = ""


def draw_timeline(figure: TimelineFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`; a span is never narrower than a pixel."""
    rows = figure.rows[:MOST_ROWS]
    if len(rows) < len(figure.rows):
        canvas.remarks.append(f"{len(rows)} of {len(figure.rows)} rows are drawn")
    swatches = [Swatch(name, f"f-{kind}", "area") for kind, name in figure.kinds]
    top = draw_legend(canvas, MARGIN, top, swatches) + 6
    names = max((text_width(fitted(row.name, 200, 11), 11) for row in rows), default=0.0)
    left = MARGIN + names + 8
    width = canvas.width - left - 2 * MARGIN
    values = [value for row in rows for span in row.spans for value in (span.start, span.end)]
    scale = scale_of(figure.x, values, max(2, int(width / 110)), 0.01)
    bottom = top + _ROW * max(len(rows), 1) + 4
    for tick in scale.ticks:
        x = left + scale.place(tick.value) * width
        canvas.line(x, top, x, bottom, "grid")
        canvas.text(x, bottom + 15, tick.text, "small faint", "middle", size=11)
    count = sum(len(row.spans) for row in rows)
    drawn = 0
    for place, row in enumerate(rows):
        y = top + 4 + _ROW * place
        canvas.text(left - 8, y + _BAR / 2, row.name, "small", "end", 200, 11, middle=True)
        most = max(1, MOST_SPANS * len(row.spans) // max(count, MOST_SPANS))
        seen = -1.0
        for span in _longest(row.spans, most):
            if not drawable((span.start, span.end)):
                continue
            x = left + scale.place(span.start) * width
            wide = max(left + scale.place(span.end) * width - x, 1.0)
            if count > _TITLED and x + wide <= seen:
                continue  # behind the one before
            seen = x + wide
            drawn += 1
            title = _span_text(figure, span) if count <= _TITLED else ""
            canvas.rectangle(x, y, wide, _BAR, f"f-{span.kind}", title)
    if drawn < count:
        canvas.remarks.append(f"{drawn} of {count} spans are drawn")
    canvas.path(path_of([(left, top), (left, bottom), (left + width, bottom)]), "axis")
    canvas.text(left + width / 2, bottom + 15 + LINE, scale.name, "small", "middle", size=11)
    canvas.height = bottom + 2 * LINE + 8


def _longest(spans: Sequence[TimelineSpan], most: int) -> list[TimelineSpan]:
    kept = spans
    if len(spans) > most:
        kept = sorted(spans, key=lambda span: span.start - span.end)[:most]
    return sorted(kept, key=lambda span: span.start)


def _span_text(figure: TimelineFigure, span: TimelineSpan) -> str:
    start = text_of(span.start, figure.x.unit)
    return f"{span.name}: {start}, {text_of(span.end - span.start, 's')}"


def describe_timeline(figure: TimelineFigure) -> str:
    """The number of spans in each row."""
    rows = [f"{row.name}: {len(row.spans)} spans." for row in figure.rows[:12]]
    left = len(figure.rows) - len(rows)
    return " ".join([*rows, *([f"And {left} more rows."] if left else [])])


@dataclass(frozen=True, slots=True)
class StackedState:
    """How many jobs are in a state at each time."""

    name: str
    counts: Sequence[float]
    kind: Kind = "plain"


@dataclass(frozen=True, slots=True)
class StackedFigure:
    """States above each other over time; the first is the lowest."""

    title: str
    x: FigureAxis
    y: FigureAxis
    times: Sequence[float]
    """In order; counts hold from one until the next."""
    states: Sequence[StackedState]
    description: str = ""


def draw_stacked(figure: StackedFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    swatches = [Swatch(one.name, f"f-{one.kind}", "area") for one in figure.states]
    top = draw_legend(canvas, MARGIN, top, list(reversed(swatches))) + 6
    sums = [[0.0] * len(figure.times)]
    for state in figure.states:
        known = (max(count, 0.0) for count in state.counts)
        sums.append([below + count for below, count in zip(sums[-1], known, strict=True)])
    axis = FigureAxis(figure.y.name, figure.y.unit, False, figure.y.whole, True)
    frame = framed(
        canvas,
        top,
        220.0,
        lambda most: scale_of(figure.x, figure.times, most, 0.01),
        scale_of(axis, sums[-1], 6, 0.04),
    )
    some = _columns(figure.times, sums[-1], int(frame.width / 2))
    spots = [frame.x(figure.times[at]) for at in some]
    if len(spots) == 1:
        spots, some = [frame.left, frame.left + frame.width], [some[0], some[0]]
    for place, state in enumerate(figure.states):
        if not spots or not any(state.counts):
            continue
        upper = _stairs(spots, [frame.y(sums[place + 1][at]) for at in some])
        lower = _stairs(spots, [frame.y(sums[place][at]) for at in some])
        title = f"{state.name}: last {text_of(state.counts[-1], figure.y.unit)}"
        outline = path_of([*upper, *reversed(lower)], closed=True)
        canvas.path(outline, f"f-{state.kind}", title)


def _columns(times: Sequence[float], heights: Sequence[float], columns: int) -> list[int]:
    """At most two times for each column of pixels: the first, and that with the highest stack."""
    if len(times) <= 2 * columns:
        return list(range(len(times)))
    wide = (times[-1] - times[0]) or 1.0
    kept: dict[int, list[int]] = {}
    for at, time in enumerate(times):
        kept.setdefault(int((time - times[0]) / wide * columns), []).append(at)
    last = len(times) - 1
    chosen = {last}
    for some in kept.values():
        chosen |= {some[0], max(some, key=lambda at: heights[at])}
    return sorted(chosen)


def _stairs(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    points = [(xs[0], ys[0])]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        points += [(x, points[-1][1]), (x, y)]
    return points


def describe_stacked(figure: StackedFigure) -> str:
    """The last count of each state."""
    if not figure.times:
        return "Nothing was recorded."
    parts = [f"{one.name} {text_of(one.counts[-1], figure.y.unit)}" for one in figure.states]
    return f"At the end: {', '.join(parts)}."
