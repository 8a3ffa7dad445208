"""Parameters as axes of plots: places for values, and which parameters matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from skipjack.core.config import Config
from skipjack.report.numbers import metric_text
from skipjack.report.sweep_points import (
    one_line,
    parameter_names,
    setting_text,
    summarize,
)
from skipjack.sweep.result import SweepResult

MOST_PLACES = 16
"""More values than this, and numbers are put together in ranges."""
_LABEL = 18


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of one parameter in order, each with a place; missing ones are told, too."""

    name: str
    labels: tuple[str, ...]
    places: dict[str, int]
    """By the value's text."""

    def place(self, point: Config) -> int:
        """Where a point stands."""
        return self.places[_text(point, self.name)]

    @property
    def varies(self) -> bool:
        """Whether there is more than one place."""
        return len(self.labels) > 1


def axis(name: str, points: Sequence[Config]) -> Axis:
    """Numbers in order and, if they are many, in ranges; words as they came."""
    values = {_text(point, name): point.get(name) for point in points}
    numbers = {text: number for text, value in values.items() if (number := _number(value))}
    if len(numbers) == len(values):
        ordered = sorted(values, key=lambda text: numbers[text][0])
        if len(ordered) > MOST_PLACES:
            return _ranges(name, ordered)
    else:
        # Words keep their order; what is missing stands last.
        ordered = sorted(values, key=lambda text: text == "")
    labels = tuple(shortened(text or "(none)") for text in ordered)
    return Axis(name, labels, {text: place for place, text in enumerate(ordered)})


def _text(point: Config, name: str) -> str:
    return one_line(setting_text(point[name])) if name in point else ""


def _number(value: Any) -> tuple[float] | None:
    """In a tuple, for zero is a number, too."""
    plain = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return (float(value),) if plain else None


def _ranges(name: str, ordered: Sequence[str]) -> Axis:
    """As many values in each range, as far as it goes."""
    count = len(ordered)
    places = {text: index * MOST_PLACES // count for index, text in enumerate(ordered)}
    parts: list[list[str]] = [[] for _ in range(MOST_PLACES)]
    for text, place in places.items():
        parts[place].append(text)
    labels = tuple(
        _tidy(part[0]) if len(part) == 1 else f"{_tidy(part[0])} to {_tidy(part[-1])}"
        for part in parts
    )
    return Axis(name, labels, places)


def _tidy(text: str) -> str:
    return metric_text(float(text))


def shortened(text: str, most: int = _LABEL) -> str:
    """The beginning and the end of a long text."""
    text = one_line(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"


def axes_of(result: SweepResult) -> list[Axis]:
    """One for each parameter, in the order of their declaration."""
    points = [trial.point for trial in result.trials]
    return [axis(name, points) for name in parameter_names(result)]


def by_effect(result: SweepResult) -> list[Axis]:
    """Axes, those that matter most first.

    What counts is how far apart the medians at an axis' places are, compared with how far points
    are from the median of their place.
    """
    summaries = summarize(result)

    def effect(one: Axis) -> tuple[bool, float]:
        groups: dict[int, list[float]] = {}
        for summary in summaries:
            groups.setdefault(one.place(summary.point), []).append(summary.value)
        if len(groups) < 2:
            return one.varies, 0.0
        middles = [median(values) for values in groups.values()]
        rest = sum(abs(v - median(values)) for values in groups.values() for v in values)
        apart = max(middles) - min(middles)
        return one.varies, apart / (1e-12 + apart + rest / len(summaries))

    return sorted(axes_of(result), key=effect, reverse=True)
