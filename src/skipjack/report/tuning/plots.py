"""Plots of a tuning and of a ranking as SVG files, named after the problem."""

from __future__ import annotations

import re
from itertools import accumulate
from math import isfinite
from pathlib import Path

from skipjack.core import Problem, Status, settings_text
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
    FigureLevel,
    Kind,
    LineFigure,
    LineSeries,
    svg,
)
from skipjack.report.numbers import gain_text, library_name, time_text
from skipjack.storage import atomic_write, output_directory
from skipjack.tuning import FindResult, FindStatus, RankedSolver
from skipjack.tuning.study import TuneResult

_TIME = FigureAxis("time of a call (less is better)", "ns")


def trials_figure(result: TuneResult) -> LineFigure | None:
    """The time of each trial, the best so far, and what there was to beat; None without trials."""
    tried = [trial for trial in result.trials if trial.status is not Status.INFEASIBLE]
    if not tried:
        return None
    times = [trial.value if trial.ok else None for trial in tried]
    best = list(accumulate(times, _lesser))
    levels = {"default": result.default_ns}
    levels |= {library_name(name): ns for name, ns in result.vendor_times_ns.items()}
    numbers = range(1, len(tried) + 1)
    texts = [trial.reason or settings_text(trial.config) for trial in tried]
    return LineFigure(
        f"{result.problem.key} on {result.device}: best so far",
        FigureAxis("trial", whole=True),
        _TIME,
        [
            LineSeries("a trial", numbers, times, "points", "plain", texts=texts),
            LineSeries("best so far", numbers, best, "step", "best", last_text=True),
        ],
        [FigureLevel(name, ns) for name, ns in levels.items() if isfinite(ns)],
    )


def _lesser(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)


def ranking_figure(result: FindResult) -> BarFigure | None:
    """A bar for each solver, fastest first, failed ones last; None if nothing was tried."""
    rows = [one for one in result.solvers if one.status != FindStatus.NOT_APPLICABLE]
    if not rows:
        return None
    bars = [
        FigureBar(
            one.solver,
            one.time_ns if one.ok else None,
            note=_label(one, place),
            kind=_kind(one, place),
        )
        for place, one in enumerate(rows)
    ]
    return BarFigure(f"{result.problem.key} on {result.device}", _TIME, bars)


def _kind(one: RankedSolver, place: int) -> Kind:
    if not one.ok:
        return "failed"
    return "best" if place == 0 else "tie" if one.tie else "plain"


def _label(one: RankedSolver, place: int) -> str:
    """``1.2 ms, 1.04 [1.03, 1.06] times the first``; the status of a failed solver."""
    if not one.ok:
        return one.status
    if place == 0 or one.behind is None:
        return time_text(one.time_ns)
    times = gain_text(one.behind.ratio, one.behind.low, one.behind.high)
    return f"{time_text(one.time_ns)}, {times} times the first{' (tie)' if one.tie else ''}"


def check_plots(directory: Path) -> None:
    """Create the directory, and raise if plots could not be written to it."""
    output_directory(directory)


def write_tune_plots(result: TuneResult, directory: Path) -> list[Path]:
    """Write ``relu-64-f32.znver4-1.native-hot.best-so-far.svg``; nothing without trials."""
    name = _name(result.problem, result.device, result.deployed)
    return _write(directory, {f"{name}.best-so-far": trials_figure(result)})


def write_find_plots(result: FindResult, directory: Path) -> list[Path]:
    """Write ``....ranking.svg`` of the solvers, and a plot of the search for the best config."""
    name = _name(result.problem, result.device)
    figures: dict[str, Figure | None] = {f"{name}.ranking": ranking_figure(result)}
    if result.perf is not None:
        figures[f"{name}.best-so-far"] = trials_figure(result.perf)
    return _write(directory, figures)


def _write(directory: Path, figures: dict[str, Figure | None]) -> list[Path]:
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            paths.append(directory / f"{name}.svg")
            atomic_write(paths[-1], svg(figure, "light").encode())
    return paths


def _name(problem: Problem, *place: str) -> str:
    """A distinct name for a result, in characters that file names may have."""
    parts = (problem.key, *filter(None, place))
    return ".".join(re.sub(r"[^A-Za-z0-9=,._-]", "-", part) for part in parts)
