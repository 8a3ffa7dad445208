"""A value for each pair of settings, as a colored cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from skipjack.app.views import Unit
from skipjack.report.figures.axes import FigureAxis, clamped, drawable, is_wide, scale_of, text_of
from skipjack.report.figures.canvas import LINE, MARGIN, Canvas, Swatch, draw_legend, text_width
from skipjack.report.figures.style import shade

MOST_CELLS = 2_500
_KEY = 10
"""Steps of the key to the colors."""


@dataclass(frozen=True, slots=True)
class HeatMapFigure:
    """Cells of columns and rows; the brighter, the better."""

    title: str
    across: str
    """What the columns are."""
    up: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Mapping[tuple[int, int], float | None]
    """By column and row; None where everything failed, no entry where nothing was tried."""
    value: str = ""
    """What the values are."""
    unit: Unit = ""
    better: Literal["less", "more"] = "less"
    best: tuple[int, int] | None = None
    """The column and row of the cell that is framed."""
    description: str = ""


def draw_heat_map(figure: HeatMapFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`; the first row is the lowest."""
    columns, rows = len(figure.columns), len(figure.rows)
    if not columns or not rows or columns * rows > MOST_CELLS:
        sentence = "nothing was tried" if not columns * rows else f"{columns * rows} cells are many"
        canvas.text(MARGIN, top + LINE, sentence, "faint")
        canvas.height = top + 2 * LINE
        return
    top = _draw_key(figure, canvas, top)
    names = max(text_width(name, 11) for name in figure.rows)
    left = MARGIN + min(names, 200.0) + 8 + LINE
    wide = (canvas.width - left - 2 * MARGIN) / columns
    wide = min(wide, 90.0)
    high = min(max(18.0, 360.0 / rows), 34.0)
    bottom = top + rows * high
    known = drawable(figure.cells.values())
    for (x, y), value in sorted(figure.cells.items()):
        place = (left + x * wide, bottom - (y + 1) * high, wide, high)
        name = f"{figure.across} {figure.columns[x]}, {figure.up} {figure.rows[y]}".strip(" ,")
        _draw_cell(figure, canvas, place, value, name, known)
    if figure.best is not None:
        x, y = figure.best
        canvas.rectangle(
            left + x * wide + 1.5, bottom - (y + 1) * high + 1.5, wide - 3, high - 3,
            "line thick l-best", "the best",
        )  # fmt: skip
    for y, name in enumerate(figure.rows):
        middle = bottom - (y + 0.5) * high
        canvas.text(left - 6, middle, name, "small faint", "end", 200, 11, middle=True)
    below = _draw_columns(figure, canvas, left, bottom, wide)
    canvas.text(left + columns * wide / 2, below + 4, figure.across, "small", "middle", size=11)
    canvas.text(
        MARGIN + 6,
        (top + bottom) / 2,
        figure.up,
        "small",
        "middle",
        bottom - top + 40,
        11,
        turn=-90,
    )
    canvas.height = below + 12


def _share(figure: HeatMapFigure, value: float, known: Sequence[float]) -> float:
    """How good a value is among the others, from 0 to 1; by ratios where the range is wide."""
    log = is_wide(known)
    scale = scale_of(FigureAxis("", log=log), known, 2, 0.0)
    share = scale.place(clamped(value)) if max(known) > min(known) else 0.5
    return share if figure.better == "more" else 1.0 - share


def _draw_cell(
    figure: HeatMapFigure,
    canvas: Canvas,
    place: tuple[float, float, float, float],
    value: float | None,
    name: str,
    known: Sequence[float],
) -> None:
    x, y, wide, high = place
    if value is None or not isfinite(value):
        canvas.rectangle(x, y, wide, high, "paper edge", f"{name}: failed")
        canvas.cross(x + wide / 2, y + high / 2, min(5.0, wide / 3), "l-failed")
        return
    color, dark = shade(_share(figure, value, known))
    text = text_of(value, figure.unit)
    canvas.rectangle(x, y, wide, high, "edge", f"{name}: {text}", color)
    short = text if text_width(text, 10.5) < wide - 4 else text.partition(" ")[0]
    if text_width(short, 10.5) < wide - 2:
        canvas.text(
            x + wide / 2, y + high / 2, short, f"small {'light' if dark else 'dark'}",
            "middle", size=10.5, middle=True,
        )  # fmt: skip


def _draw_columns(
    figure: HeatMapFigure, canvas: Canvas, left: float, bottom: float, wide: float
) -> float:
    """Draw the names of columns, slanted if they are long; returns the position below them."""
    longest = max(text_width(name, 11) for name in figure.columns)
    slanted = longest > wide - 6
    for x, name in enumerate(figure.columns):
        middle = left + (x + 0.5) * wide
        if slanted and (wide >= 12 or x % 2 == 0):
            canvas.text(middle, bottom + 14, name, "small faint", "end", 110, 11, turn=-40)
        elif not slanted:
            canvas.text(middle, bottom + 15, name, "small faint", "middle", size=11)
    return bottom + (30 + min(longest, 110.0) * 0.65 if slanted else 30)


def _draw_key(figure: HeatMapFigure, canvas: Canvas, top: float) -> float:
    known = drawable(figure.cells.values())
    swatches = []
    if any(value is None or not isfinite(value) for value in figure.cells.values()):
        swatches.append(Swatch("all failed", "l-failed", "cross"))
    if figure.best is not None:
        swatches.append(Swatch("the best", "line thick l-best", "area"))
    x = MARGIN
    if known:
        low, high = (text_of(value, figure.unit) for value in (min(known), max(known)))
        head = f"{figure.value}: {low}" if figure.value else low
        canvas.text(x, top + LINE / 2, head, "small", size=11, middle=True)
        x += text_width(head, 11) + 6
        for step in range(_KEY):
            share = step / (_KEY - 1)
            color, _ = shade(share if figure.better == "more" else 1.0 - share)
            canvas.rectangle(x + 9 * step, top + 2, 9, 12, "key", fill=color)
        x += 9 * _KEY + 6
        canvas.text(x, top + LINE / 2, high, "small", size=11, middle=True)
        x += text_width(high, 11) + 16
    return max(draw_legend(canvas, x, top, swatches), top + LINE + 4) + 4


def describe_heat_map(figure: HeatMapFigure) -> str:
    """The size, the range and the best cell."""
    known = drawable(figure.cells.values())
    failed = sum(value is None for value in figure.cells.values())
    head = f"{len(figure.columns)} values of {figure.across} by {len(figure.rows)} of {figure.up}."
    if known:
        low, high = (text_of(value, figure.unit) for value in (min(known), max(known)))
        head += f" {figure.value or 'values'} from {low} to {high}."
    if figure.best is not None:
        x, y = figure.best
        head += f" The best is at {figure.columns[x]}, {figure.rows[y]}."
    return f"{head} {failed} cells failed." if failed else head
