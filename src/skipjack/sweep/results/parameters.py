"""Parameters of points: their values in order, and how much each of them matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from statistics import median
from typing import Any

from skipjack.core import Direction
from skipjack.errors import UsageError
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results.points import (
    maximised,
    one_line,
    parameter_names,
    setting_text,
    summarize,
)

MOST_PLACES = 16
"""Numbers with more values than this are grouped in ranges of nearly the same number of values."""
RANGE = " to "
"""Between the bounds in the label of a range."""
MISSING = "(none)"
"""The label of points that do not have the parameter."""

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParameterAxis:
    """The values of a parameter in order, each with a place; missing values have one, too."""

    name: str
    labels: Sequence[str]
    places: Mapping[str, int]
    """Places by the values' texts."""

    @property
    def varies(self) -> bool:
        """Whether there is more than one place."""
        return len(self.labels) > 1

    def place(self, point: Point) -> int:
        """The place of a point's value."""
        return self.places[_text(point, self.name)]


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """How much a parameter matters for the value of points."""

    name: str
    share: float
    """The share of the variance that differences between its values explain, from 0 to 1. Of
    positive values it is the variance of the logarithm."""
    values: int
    best: str
    """The value with the best mean; empty if no point has a value."""


def axes_of(points: Sequence[Point], names: Sequence[str] = ()) -> list[ParameterAxis]:
    """An axis for each parameter, in the given order, or else that of appearance."""
    named = names or tuple(dict.fromkeys(name for point in points for name in point))
    return [axis_of(name, points) for name in named]


def axis_of(name: str, points: Sequence[Point]) -> ParameterAxis:
    """The axis of a parameter: numbers sorted, and in ranges if there are many; words as found."""
    values: dict[str, Any] = {_text(point, name): point.get(name) for point in points}
    numbers = {text: float(value) for text, value in values.items() if _is_number(value)}
    if len(numbers) < len(values):
        ordered = sorted(values, key=lambda text: text == "")  # a missing value is last
    else:
        ordered = sorted(values, key=lambda text: numbers[text])
        if len(ordered) > MOST_PLACES:
            return _in_ranges(name, ordered)
    labels = tuple(text or MISSING for text in ordered)
    return ParameterAxis(name, labels, {text: place for place, text in enumerate(ordered)})


def _in_ranges(name: str, ordered: Sequence[str]) -> ParameterAxis:
    count = len(ordered)
    places = {text: index * MOST_PLACES // count for index, text in enumerate(ordered)}
    parts: list[list[str]] = [[] for _ in range(MOST_PLACES)]
    for text, place in places.items():
        parts[place].append(text)
    labels = tuple(part[0] if len(part) == 1 else f"{part[0]}{RANGE}{part[-1]}" for part in parts)
    return ParameterAxis(name, labels, places)


def _text(point: Point, name: str) -> str:
    return one_line(setting_text(point[name])) if name in point else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def effects_of(
    axes: Sequence[ParameterAxis],
    points: Sequence[Point],
    values: Sequence[float | None],
    direction: Direction = "min",
) -> list[ParameterEffect]:
    """The parameters, the most important first."""
    known = [
        (point, value)
        for point, value in zip(points, values, strict=True)
        if value is not None and isfinite(value)
    ]
    if all(value > 0.0 for _, value in known):
        known = [(point, log(value)) for point, value in known]
    effects = [_effect(axis, known, direction) for axis in axes]
    return [effect for effect, _ in sorted(effects, key=lambda one: (-one[0].share, -one[1]))]


def _effect(
    axis: ParameterAxis, known: Sequence[tuple[Point, float]], direction: Direction
) -> tuple[ParameterEffect, float]:
    """The effect, and its share with what is due to chance."""
    groups: dict[int, list[float]] = {}
    for point, value in known:
        groups.setdefault(axis.place(point), []).append(value)
    if not groups:
        return ParameterEffect(axis.name, 0.0, len(axis.labels), ""), 0.0
    means = {place: sum(group) / len(group) for place, group in groups.items()}
    sign = -1.0 if direction == "max" else 1.0
    best = axis.labels[min(means, key=lambda place: sign * means[place])]
    mean = sum(value for _, value in known) / len(known)
    total = sum((value - mean) ** 2 for _, value in known)
    within = sum((value - means[place]) ** 2 for place, group in groups.items() for value in group)
    free = len(known) - len(groups)
    if total <= 0.0 or len(groups) < 2:
        return ParameterEffect(axis.name, 0.0, len(axis.labels), best), 0.0
    # Epsilon squared: groups of few points differ by chance, which is subtracted. With one point
    # in each group nothing is known about chance.
    by_chance = (len(groups) - 1) * within / free if free else total - within
    share = max(0.0, (total - within - by_chance) / total)
    effect = ParameterEffect(axis.name, share, len(axis.labels), best)
    return effect, (total - within) / total


# Of a sweep.


def parameter_axes(result: SweepResult) -> list[ParameterAxis]:
    """An axis for each parameter of a sweep, in the order of declaration."""
    return axes_of([trial.point for trial in result.trials], parameter_names(result))


def parameter_effects(result: SweepResult) -> list[ParameterEffect]:
    """The parameters of a sweep, the most important first."""
    summaries = summarize(result)
    return effects_of(
        parameter_axes(result),
        [one.point for one in summaries],
        [one.value for one in summaries],
        "max" if maximised(result) else "min",
    )


def _by_effect(result: SweepResult) -> list[ParameterAxis]:
    """The axes, those that matter most first; those with one value are last."""
    ranked = {one.name: place for place, one in enumerate(parameter_effects(result))}
    axes = parameter_axes(result)
    return sorted(axes, key=lambda one: (not one.varies, ranked[one.name]))


# The heat map of two parameters: the median of all points at each pair of values.

HeatCell = tuple[int, int]
"""The places of a cell on the horizontal and the vertical axis."""


def heat_cells(
    result: SweepResult, across: ParameterAxis, up: ParameterAxis
) -> dict[HeatCell, float | None]:
    """The median of points by cell; None if all failed. Cells without points are left out."""
    found: dict[HeatCell, list[float]] = {}
    for trial in result.trials:
        found.setdefault((across.place(trial.point), up.place(trial.point)), [])
    for summary in summarize(result):
        found[across.place(summary.point), up.place(summary.point)].append(summary.value)
    return {cell: median(values) if values else None for cell, values in found.items()}


def heat_axes(
    result: SweepResult, names: tuple[str, str] | None
) -> tuple[ParameterAxis, ParameterAxis] | None:
    """The requested axes, or the two with most effect; None if there are no parameters."""
    ranked = _by_effect(result)
    if names is not None:
        known = {one.name: one for one in parameter_axes(result)}
        for name in names:
            if name not in known:
                raise UsageError(f"{name!r} is not a parameter; choose from {', '.join(known)}")
        return known[names[0]], known[names[1]]
    if not ranked:
        return None
    flat = ParameterAxis("", ("",), {"": 0})
    pair = [one for one in ranked if one.varies][:2]
    return (pair[0], pair[1]) if len(pair) == 2 else (pair[0] if pair else ranked[0], flat)
