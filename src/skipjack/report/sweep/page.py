"""A sweep's figures as files, and one HTML page with everything in it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from skipjack.app.views import SweepPage, SweepRow, sweep_view
from skipjack.report.documents import write_document
from skipjack.report.figures import png, svg
from skipjack.report.views import sweep_figures, sweep_report
from skipjack.storage import atomic_write, output_directory
from skipjack.sweep.engine import SweepResult

PlotKind = Literal["svg", "png"]


def view_of(result: SweepResult, heat_map: tuple[str, str] | None = None) -> SweepPage:
    """The page of a result that is in no file yet."""
    failed = sum(trial.status.failed for trial in result.trials)
    points = len({trial.point.key for trial in result.trials})
    row = SweepRow(result.name, result.name, "report", points, len(result.trials), failed, None)
    return sweep_view(row, result, heat_map)


def plots(
    result: SweepResult, kind: PlotKind = "svg", heat_map: tuple[str, str] | None = None
) -> dict[str, bytes]:
    """Pictures by name; empty ones are left out.

    `heat_map` names two parameters; by default, those that matter most are used.
    """
    figures = sweep_figures(view_of(result, heat_map))
    return {
        name: png(figure) if kind == "png" else svg(figure, "light").encode()
        for name, figure in figures.items()
    }


def write_plots(
    result: SweepResult,
    directory: Path,
    kind: PlotKind = "svg",
    heat_map: tuple[str, str] | None = None,
) -> list[Path]:
    """Write ``best-so-far.svg`` and others to a directory, which is created if needed."""
    output_directory(directory)
    paths = []
    for name, data in plots(result, kind, heat_map).items():
        paths.append(directory / f"{name}.{kind}")
        atomic_write(paths[-1], data)
    return paths


def write_html(result: SweepResult, path: Path) -> None:
    """Write a self-contained page."""
    write_document(sweep_report(view_of(result)).document(), path)
