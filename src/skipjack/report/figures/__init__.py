"""Figures as SVG, for web pages, reports and papers: from plain numbers, without dependencies.

A figure is a frozen dataclass with its data, a title and its axes:

- `LineFigure`: series of lines, steps and points with failed trials, bands and levels;
- `ParetoFigure`: two objectives, and the front;
- `BarFigure`: bars with names, intervals and notes;
- `DistributionFigure`: samples of several configs, with medians, noise and ties;
- `HeatMapFigure`: a value for each pair of settings;
- `ParallelFigure`: parallel coordinates of configs;
- `StackedFigure`: numbers of jobs by state over time;
- `TimelineFigure`: spans of time in rows;
- `LoopTreeFigure`: a loop nest, and what an action changed;
- `StepFigure`: the operations of a step of a program, before and after.

``svg(figure)`` is an element for a page that has `figure_stylesheet` in one of its stylesheets; it
follows the reader's light or dark setting, or ``data-theme`` of the root element, and has neither
style attributes nor scripts, so that it works under a strict content security policy.
``svg(figure, "light")`` is the text of a file of its own, and `png` its picture.

All data may be empty, None or not finite: what cannot be drawn is left out or marked as failed.
Texts are escaped and shortened here. Of many points those are drawn that can be told apart, and
all extremes.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.figures.axes import FigureAxis, text_of
    from skipjack.report.figures.bars import BarFigure, FigureBar
    from skipjack.report.figures.distributions import DistributionFigure, SampleGroup
    from skipjack.report.figures.drawing import WIDTH, Figure, PngMissingError, png, svg
    from skipjack.report.figures.heat_map import HeatMapFigure
    from skipjack.report.figures.lines import FigureLevel, LineFigure, LineSeries
    from skipjack.report.figures.loop_tree import LoopTreeFigure, LoopTreeNode
    from skipjack.report.figures.parallel import ParallelAxis, ParallelFigure, ParallelLine
    from skipjack.report.figures.pareto import ParetoFigure, ParetoPoint
    from skipjack.report.figures.steps import StepFigure, StepPart
    from skipjack.report.figures.style import Kind, Theme, figure_stylesheet
    from skipjack.report.figures.thinning import thinned_line
    from skipjack.report.figures.timeline import (
        StackedFigure,
        StackedState,
        TimelineFigure,
        TimelineRow,
        TimelineSpan,
    )

__all__ = [
    "WIDTH",
    "BarFigure",
    "DistributionFigure",
    "Figure",
    "FigureAxis",
    "FigureBar",
    "FigureLevel",
    "HeatMapFigure",
    "Kind",
    "LineFigure",
    "LineSeries",
    "LoopTreeFigure",
    "LoopTreeNode",
    "ParallelAxis",
    "ParallelFigure",
    "ParallelLine",
    "ParetoFigure",
    "ParetoPoint",
    "PngMissingError",
    "SampleGroup",
    "StackedFigure",
    "StackedState",
    "StepFigure",
    "StepPart",
    "Theme",
    "TimelineFigure",
    "TimelineRow",
    "TimelineSpan",
    "figure_stylesheet",
    "png",
    "svg",
    "text_of",
    "thinned_line",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "axes": "FigureAxis text_of",
        "bars": "BarFigure FigureBar",
        "distributions": "DistributionFigure SampleGroup",
        "drawing": "Figure PngMissingError WIDTH png svg",
        "heat_map": "HeatMapFigure",
        "lines": "FigureLevel LineFigure LineSeries",
        "loop_tree": "LoopTreeFigure LoopTreeNode",
        "parallel": "ParallelAxis ParallelFigure ParallelLine",
        "pareto": "ParetoFigure ParetoPoint",
        "steps": "StepFigure StepPart",
        "style": "Kind Theme figure_stylesheet",
        "thinning": "thinned_line",
        "timeline": "StackedFigure StackedState TimelineFigure TimelineRow TimelineSpan",
    },
)
