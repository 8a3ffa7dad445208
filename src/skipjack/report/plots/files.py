"""The plots of a tuning or a find as SVG files, named after the problem."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.core.problem import Problem
from skipjack.report.plots.search import draw_trials
from skipjack.report.plots.solvers import draw_ranking
from skipjack.report.sweep_drawing import drawing, picture
from skipjack.storage import atomic_write, output_directory
from skipjack.tuning import FindResult, TuneResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plots(directory: Path) -> None:
    """Refuse now what could not be drawn or written in the end; makes the directory."""
    with drawing(""):
        output_directory(directory)


def write_tune_plots(result: TuneResult, directory: Path) -> list[Path]:
    """``relu-64-f32.znver4-1.native-hot.best-so-far.svg``; nothing where nothing was tried."""
    name = _name(result.problem, result.device, result.deployed)
    return _write(directory, {f"{name}.best-so-far": partial(draw_trials, result)})


def write_find_plots(result: FindResult, directory: Path) -> list[Path]:
    """``....ranking.svg`` of the solvers, and the search for the best config beside it."""
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
    """What tells the results of a command apart, in letters that file names may have."""
    parts = (problem.key, *filter(None, place))
    return ".".join(re.sub(r"[^A-Za-z0-9=,._-]", "-", part) for part in parts)
