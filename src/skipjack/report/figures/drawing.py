"""Figures as the text of an SVG, and as the bytes of a PNG."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Literal

from skipjack.errors import SkipjackError
from skipjack.report.figures.bars import BarFigure, describe_bars, draw_bars
from skipjack.report.figures.canvas import LINE, MARGIN, Canvas, clean, number
from skipjack.report.figures.distributions import (
    DistributionFigure,
    describe_distributions,
    draw_distributions,
)
from skipjack.report.figures.heat_map import HeatMapFigure, describe_heat_map, draw_heat_map
from skipjack.report.figures.lines import LineFigure, describe_lines, draw_lines
from skipjack.report.figures.loop_tree import LoopTreeFigure, describe_loop_tree, draw_loop_tree
from skipjack.report.figures.parallel import ParallelFigure, describe_parallel, draw_parallel
from skipjack.report.figures.pareto import ParetoFigure, describe_pareto, draw_pareto
from skipjack.report.figures.steps import StepFigure, describe_step, draw_step
from skipjack.report.figures.style import Theme, file_stylesheet
from skipjack.report.figures.timeline import (
    StackedFigure,
    TimelineFigure,
    describe_stacked,
    describe_timeline,
    draw_stacked,
    draw_timeline,
)

Figure = (
    LineFigure
    | ParetoFigure
    | BarFigure
    | DistributionFigure
    | HeatMapFigure
    | ParallelFigure
    | TimelineFigure
    | StackedFigure
    | LoopTreeFigure
    | StepFigure
)
WIDTH = 720.0
"""The usual width of a figure, in pixels."""


class PngMissingError(SkipjackError):
    """What draws PNG files is not installed, or finds no font."""


def svg(figure: Figure, theme: Theme = "page", width: float = WIDTH) -> str:
    """The figure as an SVG element: inside a page, or as a file in light or dark colors.

    A page needs `figure_stylesheet` once. The element has no style attributes and runs nothing.
    """
    canvas = Canvas(max(width, 200.0))
    top = 8.0
    if figure.title:
        room = canvas.width - 2 * MARGIN
        canvas.text(MARGIN, top + 13, figure.title, "head", room=room, size=14)
        top += LINE + 10
    description = _draw(figure, canvas, top)
    told = figure.description or description or "There is nothing to show."
    told = ". ".join([told.rstrip("."), *canvas.remarks])
    size = f"{number(canvas.width)} {number(canvas.height)}"
    wide, high = size.split()
    file = theme != "page"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fig" role="img" viewBox="0 0 {size}" '
        f'width="{wide}" height="{high}" aria-label="{escape(clean(figure.title) or "figure")}">'
    )
    body = [
        head,
        f"<title>{escape(clean(figure.title))}</title>" if file else "",
        f"<desc>{escape(clean(told))}</desc>" if told else "",
    ]
    if theme != "page":
        body.append(f"<style>{escape(file_stylesheet(theme), quote=False)}</style>")
        body.append(f'<rect class="paper" width="{wide}" height="{high}"/>')
    return "\n".join([*(part for part in body if part), *canvas.parts, "</svg>", ""])


def _draw(figure: Figure, canvas: Canvas, top: float) -> str:
    """Draw by the figure's class; returns its description."""
    match figure:
        case LineFigure():
            draw_lines(figure, canvas, top)
            return describe_lines(figure)
        case ParetoFigure():
            draw_pareto(figure, canvas, top)
            return describe_pareto(figure)
        case BarFigure():
            draw_bars(figure, canvas, top)
            return describe_bars(figure)
        case DistributionFigure():
            draw_distributions(figure, canvas, top)
            return describe_distributions(figure)
        case HeatMapFigure():
            draw_heat_map(figure, canvas, top)
            return describe_heat_map(figure)
        case ParallelFigure():
            draw_parallel(figure, canvas, top)
            return describe_parallel(figure)
        case TimelineFigure():
            draw_timeline(figure, canvas, top)
            return describe_timeline(figure)
        case StackedFigure():
            draw_stacked(figure, canvas, top)
            return describe_stacked(figure)
        case LoopTreeFigure():
            draw_loop_tree(figure, canvas, top)
            return describe_loop_tree(figure)
        case StepFigure():
            draw_step(figure, canvas, top)
            return describe_step(figure)


def png(
    figure: Figure,
    theme: Literal["light", "dark"] = "light",
    width: float = WIDTH,
    zoom: float = 2.0,
) -> bytes:
    """The figure as a PNG with `zoom` times as many pixels; raises `PngMissingError`."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise PngMissingError(
            "PNG files need resvg-py, which is not installed; install skipjack[png], or write SVG"
        ) from None
    font = next((name for name in _FONTS if _draws_letters(svg_to_bytes, name)), None)
    if font is None:
        raise PngMissingError(
            "no font was found for the texts of PNG files; install one "
            "(Debian: fonts-dejavu-core), or write SVG"
        )
    text = svg(figure, theme, width)
    return svg_to_bytes(svg_string=text, zoom=zoom, sans_serif_family=font)


_FONTS = (
    *("DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Helvetica Neue"),
    *("Ubuntu", "Cantarell", "Roboto", "Open Sans", "FreeSans", "Segoe UI", "Verdana"),
)


def _draws_letters(draw: Callable[..., bytes], font: str) -> bool:
    """Whether the font is installed; without it a letter is drawn as nothing."""
    empty, letter = (
        draw(
            svg_string='<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
            f'<text x="2" y="15" font-family="{font}">{text}</text></svg>'
        )
        for text in ("", "x")
    )
    return empty != letter
