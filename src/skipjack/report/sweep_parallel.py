"""Parallel coordinates: an upright axis for each parameter, one line for each point."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from skipjack.core.config import Config
from skipjack.report.numbers import metric_text
from skipjack.report.sweep_axes import Axis, axes_of, shortened
from skipjack.report.sweep_drawing import (
    BEST,
    FAILED,
    figure,
    value_label,
    value_range,
)
from skipjack.report.sweep_points import PointSummary, maximised, summarize
from skipjack.report.sweep_summary import metric_name
from skipjack.sweep.result import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TICKS = 6


def draw_parallel(result: SweepResult) -> Figure | None:
    """None where there is no parameter."""
    axes_list = axes_of(result)
    if not axes_list:
        return None
    drawn = figure(min(24.0, max(6.0, 2.0 + 1.7 * len(axes_list))), 4.8)
    axes = drawn.add_subplot()
    summaries = summarize(result)
    low, high = value_range([summary.value for summary in summaries])
    _draw_failures(result, {summary.point.key for summary in summaries}, axes_list, axes)
    _draw_points(result, summaries, axes_list, (low, high), axes)
    for position, one in enumerate(axes_list):
        _draw_axis(axes, position, [(_height(one, i), text) for i, text in enumerate(one.labels)])
    steps = [step / (_TICKS - 1) for step in range(_TICKS)]
    scale = [(step, metric_text(low + step * (high - low))) for step in steps]
    _draw_axis(axes, len(axes_list), scale if summaries else [])
    _draw_frame(result, axes_list, axes)
    return drawn


def _height(one: Axis, place: int) -> float:
    """From 0 to 1; in the middle where there is one value."""
    return place / (len(one.labels) - 1) if one.varies else 0.5


def _draw_points(
    result: SweepResult,
    summaries: list[PointSummary],
    axes_list: list[Axis],
    limits: tuple[float, float],
    axes: Any,
) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    low, high = limits
    colours, more = colormaps["viridis"], maximised(result)
    lines, shades = [], []
    # The better, the later: good points lie above others.
    for summary in reversed(summaries):
        share = (summary.value - low) / (high - low)
        lines.append([*enumerate([*_heights(summary.point, axes_list), share])])
        # The brightest yellow is hard to see on white.
        shades.append(colours(0.9 * (share if more else 1.0 - share)))
    thin = len(summaries) > 100
    width, alpha = (0.8, 0.5) if thin else (1.4, 0.9)
    axes.add_collection(LineCollection(lines, colors=shades, linewidths=width, alpha=alpha))
    for summary, line in zip(reversed(summaries), lines, strict=True):
        if summary.point == result.best:
            axes.plot(
                *zip(*line, strict=True), color=BEST, lw=3.5, marker="o", ms=6, label="the best",
                zorder=5,
            )  # fmt: skip


def _heights(point: Config, axes_list: list[Axis]) -> list[float]:
    return [_height(one, one.place(point)) for one in axes_list]


def _draw_failures(result: SweepResult, known: set[str], axes_list: list[Axis], axes: Any) -> None:
    """Points without a value end before the last axis."""
    failed = {t.point.key: t.point for t in result.trials if t.point.key not in known}
    across: list[float] = []
    up: list[float] = []
    for point in failed.values():
        # What is no number parts one line from the next.
        across += [*range(len(axes_list)), nan]
        up += [*_heights(point, axes_list), nan]
    if failed:
        axes.plot(
            across, up, color=FAILED, lw=0.9, ls=":", marker="x", ms=5, alpha=0.5, label="failed"
        )


def _draw_axis(axes: Any, position: int, ticks: list[tuple[float, str]]) -> None:
    axes.plot([position, position], [0.0, 1.0], color="black", lw=1.0, zorder=4)
    for height, text in ticks:
        axes.annotate(
            text, (position, height), (6, 0), textcoords="offset points", va="center", fontsize=8,
            zorder=6, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip


def _draw_frame(result: SweepResult, axes_list: list[Axis], axes: Any) -> None:
    names = [shortened(one.name, 22) for one in axes_list]
    axes.set_xticks(range(len(names) + 1), [*names, shortened(metric_name(result), 22)])
    if sum(map(len, names)) > 11 * len(names):
        axes.tick_params(axis="x", rotation=15)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) + 0.45)
    axes.set_ylim(-0.06, 1.06)
    axes.set_title(f"all points, the brighter the better: {value_label(result)}")
    for side in axes.spines.values():
        side.set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(handles, labels, loc="outside lower right", ncols=2, frameon=False)
