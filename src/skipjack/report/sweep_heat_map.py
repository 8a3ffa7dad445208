"""The heat map: two parameters, and the median of all points at each pair of their values."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from skipjack.errors import UsageError
from skipjack.report.numbers import metric_text
from skipjack.report.sweep_axes import Axis, axes_of, by_effect, shortened
from skipjack.report.sweep_drawing import (
    BEST,
    FAILED,
    figure,
    good_is_bright,
    value_label,
    value_range,
)
from skipjack.report.sweep_points import summarize
from skipjack.sweep.result import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = tuple[int, int]
_WRITTEN = 200
"""So many cells can have their numbers written into them."""


def cells(result: SweepResult, across: Axis, up: Axis) -> dict[Cell, float | None]:
    """The median of points by cell; None where all of them failed. Others are not in it."""
    found: dict[Cell, list[float]] = {}
    for trial in result.trials:
        found.setdefault((across.place(trial.point), up.place(trial.point)), [])
    for summary in summarize(result):
        found[across.place(summary.point), up.place(summary.point)].append(summary.value)
    return {cell: median(values) if values else None for cell, values in found.items()}


def chosen_axes(result: SweepResult, names: tuple[str, str] | None) -> tuple[Axis, Axis] | None:
    """Those that were asked for, or the two with most effect; a single one serves as both."""
    ranked = by_effect(result)
    if names is not None:
        known = {one.name: one for one in axes_of(result)}
        for name in names:
            if name not in known:
                raise UsageError(f"{name!r} is no parameter; there are {', '.join(known)}")
        return known[names[0]], known[names[1]]
    if not ranked:
        return None
    flat = Axis("", ("",), {"": 0})
    pair = [one for one in ranked if one.varies][:2]
    return (pair[0], pair[1]) if len(pair) == 2 else (pair[0] if pair else ranked[0], flat)


def draw_heat_map(result: SweepResult, names: tuple[str, str] | None = None) -> Figure | None:
    """None where there is no parameter."""
    pair = chosen_axes(result, names)
    if pair is None:
        return None
    # The longer axis lies, so that its labels have room.
    across, up = sorted(pair, key=lambda one: -len(one.labels))
    found = cells(result, across, up)
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
    result: SweepResult, found: dict[Cell, float | None], across: Axis, up: Axis, axes: Any
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


def _has(result: SweepResult, one: Axis) -> bool:
    """Whether the best point has a place; it may be from elsewhere."""
    try:
        return result.best is not None and one.place(result.best) >= 0
    except KeyError:
        return False


def _draw_frame(across: Axis, up: Axis, axes: Any) -> None:
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


def _draw_title(result: SweepResult, found: dict[Cell, float | None], axes: Any) -> None:
    hints = ["median of points", "the best framed" if result.best else ""]
    hints.append("hatched: all failed" if None in found.values() else "")
    axes.set_title(f"{value_label(result)}\n{', '.join(hint for hint in hints if hint)}")
