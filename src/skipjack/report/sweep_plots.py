"""A sweep's plots as files, and one page with everything in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skipjack.report.sweep_best_so_far import draw_best_so_far
from skipjack.report.sweep_drawing import PlotsMissingError, picture
from skipjack.report.sweep_front_plot import draw_front
from skipjack.report.sweep_heat_map import draw_heat_map
from skipjack.report.sweep_page import page_text
from skipjack.report.sweep_parallel import draw_parallel
from skipjack.storage import output_directory
from skipjack.storage.atomic import atomic_write
from skipjack.sweep.result import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PlotsMissingError", "plots", "write_html", "write_plots"]
Kind = Literal["svg", "png"]
Pair = tuple[str, str]


def plots(
    result: SweepResult, kind: Kind = "svg", heat_map: Pair | None = None
) -> dict[str, bytes]:
    """Pictures by name; those that would be empty are left out.

    `heat_map` names its two parameters; without it, those with most effect are taken.
    """
    draws: dict[str, Callable[[], Figure | None]] = {
        "best-so-far": lambda: draw_best_so_far(result),
        "heat-map": lambda: draw_heat_map(result, heat_map),
        "parallel-coordinates": lambda: draw_parallel(result),
        "front": lambda: draw_front(result),
    }
    drawn = {name: picture(draw, name, kind) for name, draw in draws.items()}
    return {name: data for name, data in drawn.items() if data is not None}


def write_plots(
    result: SweepResult, directory: Path, kind: Kind = "svg", heat_map: Pair | None = None
) -> list[Path]:
    """``best-so-far.svg`` and others in a directory, which is made if it is not there."""
    output_directory(directory)
    paths = []
    for name, data in plots(result, kind, heat_map).items():
        paths.append(directory / f"{name}.{kind}")
        atomic_write(paths[-1], data)
    return paths


def write_html(result: SweepResult, path: Path) -> None:
    """One page that needs nothing else; without matplotlib it says so where plots would be."""
    try:
        pictures, note = plots(result), ""
    except PlotsMissingError as error:
        pictures, note = {}, str(error)
    texts = {name: data.decode() for name, data in pictures.items()}
    atomic_write(path, page_text(result, texts, note).encode())
