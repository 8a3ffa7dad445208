"""Plots of points by their parameters: heat map, parallel coordinates, front."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from skipjack.core import Config
from skipjack.report.numbers import metric_text
from skipjack.report.sweep.drawing import (
    BEST,
    FAILED,
    QUIET,
    axes_of,
    figure,
    good_is_bright,
    labeled,
    scale,
    shortened,
    value_label,
    value_range,
)
from skipjack.report.sweep.summary import metric_name
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import (
    HeatCell,
    ParameterAxis,
    PointSummary,
    heat_axes,
    heat_cells,
    maximised,
    non_dominated,
    point_text,
    summarize,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The heat map of two parameters: the median of all points at each pair of values.

_WRITTEN = 200
"""Largest number of cells with written numbers."""


def draw_heat_map(result: SweepResult, names: tuple[str, str] | None = None) -> Figure | None:
    """The heat map; None if there are no parameters."""
    chosen = heat_axes(result, names)
    if chosen is None:
        return None
    pair = labeled(chosen[0]), labeled(chosen[1])
    # The longer axis is horizontal, so that its labels have room.
    across, up = sorted(pair, key=lambda one: -len(one.labels))
    found = heat_cells(result, across, up)
    drawn = figure(
        min(16.0, max(6.0, 3.2 + 0.75 * len(across.labels))),
        min(12.0, 2.1 + 0.5 * len(up.labels)),
    )
    axes = drawn.add_subplot()
    _draw_cells(result, found, across, up, axes)
    _draw_frame(across, up, axes)
    _draw_title(result, found, axes)
    return drawn


def _draw_cells(
    result: SweepResult,
    found: dict[HeatCell, float | None],
    across: ParameterAxis,
    up: ParameterAxis,
    axes: Any,
) -> None:
    import numpy as np
    from matplotlib.patches import Rectangle

    grid = np.full((len(up.labels), len(across.labels)), np.nan)
    for (x, y), value in found.items():
        if value is not None:
            grid[y, x] = value
    low, high = value_range([value for value in found.values() if value is not None])
    image = axes.pcolormesh(
        range(len(across.labels)), range(len(up.labels)), grid, shading="nearest",
        cmap=good_is_bright(result), vmin=low, vmax=high,
    )  # fmt: skip
    axes.set_xlim(-0.5, len(across.labels) - 0.5)
    axes.set_ylim(-0.5, len(up.labels) - 0.5)
    if any(value is not None for value in found.values()):
        axes.figure.colorbar(image, ax=axes)
    for (x, y), value in found.items():
        if value is None:
            axes.add_patch(
                Rectangle(
                    (x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", edgecolor=FAILED, lw=0
                )
            )
        elif len(found) <= _WRITTEN:
            dark = sum(image.to_rgba(value)[:3]) < 1.5
            axes.text(
                x, y, metric_text(value, 4), ha="center", va="center", fontsize=8,
                color="white" if dark else "black",
            )  # fmt: skip
    if result.best is not None and all(_has(result, one) for one in (across, up)):
        corner = (across.place(result.best) - 0.5, up.place(result.best) - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=BEST, lw=3, clip_on=False))


def _has(result: SweepResult, one: ParameterAxis) -> bool:
    """Whether the best point is on the axis; it may not be among the runs."""
    try:
        return result.best is not None and one.place(result.best) >= 0
    except KeyError:
        return False


def _draw_frame(across: ParameterAxis, up: ParameterAxis, axes: Any) -> None:
    slanted = sum(len(label) for label in across.labels) > 60
    axes.set_xticks(
        range(len(across.labels)), across.labels,
        rotation=40 if slanted else 0, ha="right" if slanted else "center",
        rotation_mode="anchor" if slanted else "default",
    )  # fmt: skip
    axes.set_yticks(range(len(up.labels)), up.labels)
    if not up.name:
        axes.set_yticks([])
    axes.set_xlabel(shortened(across.name, 40))
    axes.set_ylabel(shortened(up.name, 40))
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_title(result: SweepResult, found: dict[HeatCell, float | None], axes: Any) -> None:
    hints = ["median of points", "the best framed" if result.best else ""]
    hints.append("hatched: all failed" if None in found.values() else "")
    axes.set_title(f"{value_label(result)}\n{', '.join(hint for hint in hints if hint)}")


# Parallel coordinates: a vertical axis for each parameter, a line for each point.

_TICKS = 6


def draw_parallel(result: SweepResult) -> Figure | None:
    """The plot of all points; None if there are no parameters."""
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
    _draw_axis_names(result, axes_list, axes)
    return drawn


def _height(one: ParameterAxis, place: int) -> float:
    """The height from 0 to 1; 0.5 if there is only one value."""
    return place / (len(one.labels) - 1) if one.varies else 0.5


def _draw_points(
    result: SweepResult,
    summaries: list[PointSummary],
    axes_list: list[ParameterAxis],
    limits: tuple[float, float],
    axes: Any,
) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    low, high = limits
    colours, more = colormaps["viridis"], maximised(result)
    lines, shades = [], []
    # Better points are drawn later, above others.
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


def _heights(point: Config, axes_list: list[ParameterAxis]) -> list[float]:
    return [_height(one, one.place(point)) for one in axes_list]


def _draw_failures(
    result: SweepResult, known: set[str], axes_list: list[ParameterAxis], axes: Any
) -> None:
    """Draw points without a value, whose lines end before the last axis."""
    failed = {t.point.key: t.point for t in result.trials if t.point.key not in known}
    across: list[float] = []
    up: list[float] = []
    for point in failed.values():
        # NaN separates the lines.
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


def _draw_axis_names(result: SweepResult, axes_list: list[ParameterAxis], axes: Any) -> None:
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


# The Pareto front of two objectives: all points, and those that no other dominates.

_NAMED = 8
"""If the front has more points, only the first and the last are labeled."""


def draw_front(result: SweepResult) -> Figure | None:
    """The plot of the first two objectives; None if there is one, or no point has both."""
    if len(result.objectives) < 2:
        return None
    found = [(s.values[0], s.values[1], s.point) for s in summarize(result) if not s.screened]
    points = [(x, y, point) for x, y, point in found if x is not None and y is not None]
    if not points:
        return None
    first, second = result.objectives[:2]
    indices = non_dominated([(x, y) for x, y, _ in points], [first.direction, second.direction])
    front = sorted((points[index] for index in indices), key=lambda one: (one[0], one[1]))
    drawn = figure(7.0, 4.8)
    axes = drawn.add_subplot()
    axes.plot([x for x, _, _ in points], [y for _, y, _ in points], "o", color=QUIET, alpha=0.6)
    axes.plot([x for x, _, _ in front], [y for _, y, _ in front], "o-", color=BEST, label="front")
    middle = (points[0][0] + points[-1][0]) / 2.0
    for x, y, point in front if len(front) <= _NAMED else (front[0], front[-1]):
        # Labels extend towards the middle and take no space from the points.
        name = axes.annotate(
            shortened(point_text(point), 40), (x, y), (0, -14 if x < middle else 7),
            textcoords="offset points", fontsize=8, ha="left" if x < middle else "right",
        )  # fmt: skip
        name.set_in_layout(False)
    axes.set_xlabel(f"{shortened(first.metric, 40)} ({first.direction})")
    axes.set_ylabel(f"{shortened(second.metric, 40)} ({second.direction})")
    axes.set_title("the front: points that no other beats in both")
    scale(axes, "x", [x for x, _, _ in points])
    scale(axes, "y", [y for _, y, _ in points])
    axes.margins(0.12)
    axes.grid(alpha=0.25)
    return drawn
