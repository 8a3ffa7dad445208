"""Plots of a tuning and of a ranking as SVG files, named after the problem."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.core import Problem, Status
from skipjack.report.numbers import gain_text, library_name, time_text, time_unit
from skipjack.report.sweep import (
    BEST,
    FAILED,
    QUIET,
    BestSoFar,
    draw_search,
    figure,
    picture,
    plot_style,
)
from skipjack.storage import atomic_write, output_directory
from skipjack.tuning import FindResult, FindStatus, RankedSolver
from skipjack.tuning.study import TuneResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Plots of a tuning: the time of each trial, the best so far, and the baselines.


def draw_trials(result: TuneResult) -> Figure | None:
    """The plot of a search; None if nothing was tried."""
    search = trials_search(result)
    drawn = draw_search(search)
    if drawn is not None:
        drawn.suptitle(f"{result.problem.key} on {result.device}", x=0.01, ha="left")
    return drawn


def trials_search(result: TuneResult) -> BestSoFar:
    """The trials of a tuning in order, without those that are infeasible."""
    tried = [trial for trial in result.trials if trial.status is not Status.INFEASIBLE]
    times = [trial.value if trial.ok else None for trial in tried]
    levels = {"default": result.default_ns}
    levels |= {library_name(name): ns for name, ns in result.vendor_times_ns.items()}
    unit_ns, unit = time_unit([ns for ns in (*times, *levels.values()) if ns is not None])
    values = tuple(None if ns is None else ns / unit_ns for ns in times)
    return BestSoFar(
        values,
        tuple(accumulate(values, _lesser)),
        f"time, {unit} (less is better)",
        run="trial",
        levels=tuple((name, ns / unit_ns) for name, ns in levels.items() if isfinite(ns)),
    )


def _lesser(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)


# Plots of a find: a bar for each solver that ran, and the status of those that failed.

_TIE = "#f0a37c"


def draw_ranking(result: FindResult) -> Figure | None:
    """The plot of a ranking, fastest first, failed solvers last; None if nothing was tried."""
    rows = [one for one in result.solvers if one.status != FindStatus.NOT_APPLICABLE]
    if not rows:
        return None
    times = [one.time_ns for one in rows if one.time_ns is not None]
    unit_ns, unit = time_unit(times)
    drawn = figure(8.0, 1.4 + 0.34 * len(rows))
    axes = drawn.subplots()
    for place, one in enumerate(rows):
        length = (one.time_ns or 0.0) / unit_ns
        axes.barh(place, length, height=0.62, color=_colour(one, place))
        axes.annotate(
            _label(one, place), (length, place), (5, 0), textcoords="offset points", va="center",
            color="black" if one.ok else FAILED,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [one.solver for one in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"time, {unit} (less is better)")
    axes.set_title(f"{result.problem.key} on {result.device}")
    axes.margins(x=0.35)
    axes.grid(axis="x", alpha=0.25)
    return drawn


def _colour(one: RankedSolver, place: int) -> str:
    return BEST if place == 0 else _TIE if one.tie else QUIET


def _label(one: RankedSolver, place: int) -> str:
    """``1.2 ms, 1.04 [1.03, 1.06] times the first``; the status of a failed solver."""
    if not one.ok:
        return one.status
    if place == 0 or one.behind is None:
        return time_text(one.time_ns)
    times = gain_text(one.behind.ratio, one.behind.low, one.behind.high)
    return f"{time_text(one.time_ns)}, {times} times the first{' (tie)' if one.tie else ''}"


# The plots of a tuning or a find as SVG files, named after the problem.


def check_plots(directory: Path) -> None:
    """Create the directory, and raise if plots could not be drawn or written."""
    with plot_style(""):
        output_directory(directory)


def write_tune_plots(result: TuneResult, directory: Path) -> list[Path]:
    """Write ``relu-64-f32.znver4-1.native-hot.best-so-far.svg``; nothing without trials."""
    name = _name(result.problem, result.device, result.deployed)
    return _write(directory, {f"{name}.best-so-far": partial(draw_trials, result)})


def write_find_plots(result: FindResult, directory: Path) -> list[Path]:
    """Write ``....ranking.svg`` of the solvers, and a plot of the search for the best config."""
    name = _name(result.problem, result.device)
    draws: dict[str, Callable[[], Figure | None]] = {
        f"{name}.ranking": partial(draw_ranking, result)
    }
    if result.perf is not None:
        draws[f"{name}.best-so-far"] = partial(draw_trials, result.perf)
    return _write(directory, draws)


def _write(directory: Path, draws: dict[str, Callable[[], Figure | None]]) -> list[Path]:
    paths = []
    for name, draw in draws.items():
        data = picture(draw, name)
        if data is not None:
            paths.append(directory / f"{name}.svg")
            atomic_write(paths[-1], data)
    return paths


def _name(problem: Problem, *place: str) -> str:
    """A distinct name for a result, in characters that file names may have."""
    parts = (problem.key, *filter(None, place))
    return ".".join(re.sub(r"[^A-Za-z0-9=,._-]", "-", part) for part in parts)
