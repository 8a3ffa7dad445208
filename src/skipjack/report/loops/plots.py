"""Plots of searches: gains by search, bars by problem, gain per action, best so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skipjack.learn.tree import SearchRun
from skipjack.report.loops.drawing import BEST, QUIET, PlotsMissingError, figure, picture, scale
from skipjack.report.loops.tables import gains_of, write_steps
from skipjack.storage import atomic_write, ensure_directory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["svg", "png"]
MOST_PANELS = 12
_COLUMNS = 3
_GAIN = "times faster than untuned"


def search_plots(runs: Sequence[SearchRun], kind: Kind = "svg") -> dict[str, bytes]:
    """Pictures by name; empty ones are left out."""
    draws: dict[str, Callable[[Sequence[SearchRun]], Figure | None]] = {
        "gains": draw_gains,
        "problems": draw_problems,
        "gain-per-action": draw_gain_per_action,
        "best-so-far": draw_best_gain,
    }
    usable = [run for run in runs if run.gain]
    if not usable:
        return {}
    drawn = {name: picture(partial(draw, usable), name, kind) for name, draw in draws.items()}
    return {name: data for name, data in drawn.items() if data is not None}


def write_search_plots(
    runs: Sequence[SearchRun], directory: Path, kind: Kind = "svg"
) -> list[Path]:
    """Write ``gains.svg`` and others to an existing directory; may raise `PlotsMissingError`."""
    paths = []
    for name, data in search_plots(runs, kind).items():
        paths.append(directory / f"{name}.{kind}")
        atomic_write(paths[-1], data)
    return paths


def write_search_report(runs: Sequence[SearchRun], directory: Path) -> str:
    """Write ``steps.csv`` and the plots; returns why there are no plots, if so."""
    ensure_directory(directory)
    write_steps(runs, directory / "steps.csv")
    try:
        write_search_plots(runs, directory)
    except PlotsMissingError as error:
        return str(error)
    return ""


def draw_gains(runs: Sequence[SearchRun]) -> Figure | None:
    """A violin of gains for each search, with each gain and the geometric mean."""
    names = _names(runs)
    gains = [gains_of([run for run in runs if run.search == name]) for name in names]
    drawn = figure(max(5.0, 1.1 * len(names) + 1.5), 4.5)
    axes = drawn.subplots()
    places = range(1, len(names) + 1)
    logs = [np.log10(some) for some in gains]
    violins: dict[str, Any] = axes.violinplot(logs, places, showextrema=False, widths=0.8)
    for body in violins["bodies"]:
        body.set_facecolor(QUIET)
        body.set_alpha(0.35)
    for place, some in zip(places, logs, strict=True):
        axes.plot([place] * len(some), some, "o", ms=3, color=QUIET, alpha=0.7)
        mean = float(some.mean())
        axes.plot([place - 0.25, place + 0.25], [mean, mean], color=BEST, lw=2.2)
        axes.annotate(
            f"{10**mean:.2f}", (place, mean), (0, 4), textcoords="offset points", ha="center",
            color=BEST, fontweight="bold",
        )  # fmt: skip
    axes.yaxis.set_major_formatter(lambda value, _: f"{10**value:.3g}")
    axes.set_xticks(list(places), names, rotation=30, ha="right")
    axes.set_ylabel(_GAIN)
    axes.set_title("gains by search; the line is the geometric mean")
    axes.grid(alpha=0.25, axis="y")
    return drawn


def draw_problems(runs: Sequence[SearchRun]) -> Figure | None:
    """A bar for each problem and search: GFLOP/s (or the gain), and below it the seconds."""
    names, problems = _names(runs), list(dict.fromkeys(run.problem for run in runs))
    rated = all(run.flops for run in runs)
    drawn = figure(max(6.0, 0.18 * len(problems) * (len(names) + 2) + 2.0), 7.0)
    rates, seconds = drawn.subplots(2, 1, sharex=True)
    wide = 0.85 / (len(names) + 1)
    colors = _colors(names)
    for number, name in enumerate(["untuned", *names]):
        left = [at + (number - len(names) / 2) * wide for at in range(len(problems))]
        heights = [_height(runs, problem, name, rated) for problem in problems]
        rates.bar(left, heights, wide, label=name, color=colors.get(name, "black"))
        spent = [_seconds(runs, problem, name) for problem in problems]
        seconds.bar(left, spent, wide, color=colors.get(name, "black"))
    seconds.set_xticks(range(len(problems)), problems, rotation=30, ha="right")
    rates.set_ylabel("GFLOP/s" if rated else _GAIN)
    rates.set_title("the best of each search, and how long it took; means over seeds")
    seconds.set_ylabel("seconds of the search")
    scale(seconds, "y", [run.elapsed_s for run in runs if run.elapsed_s > 0.0])
    for axes in (rates, seconds):
        axes.grid(alpha=0.25, axis="y")
    _legend(drawn, rates)
    return drawn


def draw_gain_per_action(runs: Sequence[SearchRun]) -> Figure | None:
    """For each problem, the gain after each action of the best path, for the first seed."""
    problems = list(dict.fromkeys(run.problem for run in runs))[:MOST_PANELS]
    names = _names(runs)
    colors = _colors(names)
    columns = min(_COLUMNS, len(problems))
    rows = -(-len(problems) // columns)
    drawn = figure(4.2 * columns, 3.2 * rows + 0.6)
    panels = drawn.subplots(rows, columns, squeeze=False).flatten()
    for problem, axes in zip(problems, panels, strict=False):
        for name in names:
            run = next((r for r in runs if (r.problem, r.search) == (problem, name)), None)
            gains = run.gains_per_action() if run else []
            known = [(at, gain) for at, gain in enumerate(gains) if gain is not None]
            if known:
                axes.plot(*zip(*known, strict=True), "o-", ms=3, color=colors[name], label=name)
        axes.set_title(problem)
        axes.set_xlabel("actions")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel(_GAIN)
        axes.grid(alpha=0.25)
    for axes in panels[len(problems) :]:
        axes.set_axis_off()
    _legend(drawn, panels[0])
    return drawn


def draw_best_gain(runs: Sequence[SearchRun]) -> Figure | None:
    """The best so far, as a geometric mean: against measurements, and against seconds."""
    drawn = figure(11.0, 4.5)
    panels = drawn.subplots(1, 2, sharey=True)
    names = _names(runs)
    colors = _colors(names)
    for name in names:
        some = [run for run in runs if run.search == name]
        for axes, by_time in zip(panels, (False, True), strict=True):
            xs, ys = best_gain_curve(some, by_time=by_time)
            axes.step(xs, ys, where="post", color=colors[name], lw=1.8, label=name)
    panels[0].set_xlabel("distinct schedules measured")
    panels[0].set_ylabel(f"{_GAIN}, best so far")
    panels[1].set_xlabel("seconds")
    scale(panels[1], "x", [run.elapsed_s for run in runs if run.elapsed_s > 0.0])
    for axes in panels:
        axes.grid(alpha=0.25)
    _legend(drawn, panels[0])
    return drawn


def best_gain_curve(runs: Sequence[SearchRun], *, by_time: bool) -> tuple[list[float], list[float]]:
    """Positions at which the mean gain of runs changes, and its values; gains start at 1."""
    changes: list[tuple[float, int, float]] = []
    for number, run in enumerate(runs):
        best = None
        for step in run.steps:
            if step.best_s != best and step.best_s and run.start_s:
                best = step.best_s
                at = step.elapsed_s if by_time else float(step.measured)
                changes.append((at, number, run.start_s / best))
        if run.steps:
            end = run.elapsed_s if by_time else float(run.measured)
            changes.append((end, number, run.gain or 1.0))
    gains = [1.0] * len(runs)
    xs: list[float] = []
    ys: list[float] = []
    for at, number, gain in sorted(changes):
        gains[number] = max(gain, gains[number])
        xs.append(at)
        ys.append(geometric_mean(gains))
    return xs, ys


def _height(runs: Sequence[SearchRun], problem: str, name: str, rated: bool) -> float:
    of_problem = [run for run in runs if run.problem == problem]
    if name == "untuned":
        seconds = [run.start_s for run in of_problem if run.start_s][:1]
        flops = of_problem[0].flops
        return (flops / seconds[0] / 1e9 if rated else 1.0) if seconds else 0.0
    some = [run for run in of_problem if run.search == name]
    values = [
        run.flops / run.best.seconds / 1e9 if rated else run.gain
        for run in some
        if run.best and run.best.seconds and run.gain
    ]
    return geometric_mean(values) if values else 0.0


def _seconds(runs: Sequence[SearchRun], problem: str, name: str) -> float:
    """The time of a search on a problem, as the mean over seeds."""
    some = [run.elapsed_s for run in runs if (run.problem, run.search) == (problem, name)]
    return sum(some) / len(some) if some else 0.0


def _names(runs: Sequence[SearchRun]) -> list[str]:
    return list(dict.fromkeys(run.search for run in runs))


def _colors(names: Sequence[str]) -> dict[str, Any]:
    from matplotlib import colormaps

    palette = colormaps["tab20"]
    return {name: palette(number % 20) for number, name in enumerate(names)}


def _legend(drawn: Figure, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
