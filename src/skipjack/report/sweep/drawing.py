"""Drawing with matplotlib, which is loaded on first use; parameters as axes of plots."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from skipjack.core import Config
from skipjack.errors import SkipjackError
from skipjack.report.numbers import metric_text
from skipjack.report.sweep.summary import (
    maximised,
    metric_name,
    one_line,
    parameter_names,
    setting_text,
    summarize,
)
from skipjack.sweep.engine import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Drawing with matplotlib, which is loaded on first use.

FAILED, BEST, QUIET = "#b3261e", "#d9480f", "#8a8f98"
_STYLE: dict[str, Any] = {
    # Names and values are shown as they are: a dollar sign does not begin a formula.
    "text.parse_math": False,
    "svg.fonttype": "path",
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
}
_WIDE_RANGE = 50.0
"""Positive values with a larger ratio than this are drawn on a logarithmic axis."""


class PlotsMissingError(SkipjackError):
    """Matplotlib is not installed."""


@contextmanager
def plot_style(salt: str) -> Iterator[None]:
    """Use our style instead of the user's; the same plot always has the same bytes."""
    try:
        import matplotlib
    except ImportError:
        raise PlotsMissingError(
            "plots need matplotlib, which is not installed; install skipjack[plots]"
        ) from None
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes, which needs no warning.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": salt}
        matplotlib.rcParams.update(style)
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure, with its size in inches, that pyplot does not manage."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def picture(draw: Callable[[], Figure | None], salt: str, kind: str = "svg") -> bytes | None:
    """The figure of `draw` as SVG or PNG; None if there is nothing to draw."""
    with plot_style(salt):
        drawn = draw()
        if drawn is None:
            return None
        stream = io.BytesIO()
        names = ("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",)
        metadata: dict[str, Any] = dict.fromkeys(names)
        drawn.savefig(stream, format=kind, dpi=120, metadata=metadata)
        return stream.getvalue()


def good_is_bright(result: SweepResult) -> str:
    """A color map in which better values are brighter."""
    return "viridis" if maximised(result) else "viridis_r"


def value_label(result: SweepResult) -> str:
    """``samples_per_second (more is better)``."""
    return f"{metric_name(result)} ({'more' if maximised(result) else 'less'} is better)"


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest value, widened if they are equal."""
    finite = [value for value in values if isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if high > low:
        return low, high
    room = (abs(low) or 1.0) / 20
    return low - room, high + room


def scale(axes: Any, name: Literal["x", "y"], values: Sequence[float]) -> None:
    """Format numbers on an axis, which is logarithmic for a wide range of values."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    if is_wide(values):
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    axis.set_major_formatter(lambda value, _: metric_text(value))
    axis.set_minor_formatter(lambda value, _: "")


def is_wide(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis is better."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return low > 0.0 and high / low > _WIDE_RANGE


# Parameters as axes of plots: positions of values, and which parameters matter.

MOST_PLACES = 16
"""If there are more values, numbers are grouped in ranges."""
_LABEL = 18


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """The values of a parameter in order, each with a position; missing values have one, too."""

    name: str
    labels: tuple[str, ...]
    places: dict[str, int]
    """Positions by the values' texts."""

    def place(self, point: Config) -> int:
        """The position of a point."""
        return self.places[_text(point, self.name)]

    @property
    def varies(self) -> bool:
        """Whether there is more than one position."""
        return len(self.labels) > 1


def axis(name: str, points: Sequence[Config]) -> PlotAxis:
    """The axis of a parameter: numbers sorted and, if there are many, in ranges; words as found."""
    values = {_text(point, name): point.get(name) for point in points}
    numbers = {text: number for text, value in values.items() if (number := _number(value))}
    if len(numbers) == len(values):
        ordered = sorted(values, key=lambda text: numbers[text][0])
        if len(ordered) > MOST_PLACES:
            return _ranges(name, ordered)
    else:
        # Words keep their order; a missing value is last.
        ordered = sorted(values, key=lambda text: text == "")
    labels = tuple(shortened(text or "(none)") for text in ordered)
    return PlotAxis(name, labels, {text: place for place, text in enumerate(ordered)})


def _text(point: Config, name: str) -> str:
    return one_line(setting_text(point[name])) if name in point else ""


def _number(value: Any) -> tuple[float] | None:
    """The number in a tuple, which is true even for zero; None for other values."""
    plain = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return (float(value),) if plain else None


def _ranges(name: str, ordered: Sequence[str]) -> PlotAxis:
    """Ranges with nearly the same number of values."""
    count = len(ordered)
    places = {text: index * MOST_PLACES // count for index, text in enumerate(ordered)}
    parts: list[list[str]] = [[] for _ in range(MOST_PLACES)]
    for text, place in places.items():
        parts[place].append(text)
    labels = tuple(
        _tidy(part[0]) if len(part) == 1 else f"{_tidy(part[0])} to {_tidy(part[-1])}"
        for part in parts
    )
    return PlotAxis(name, labels, places)


def _tidy(text: str) -> str:
    return metric_text(float(text))


def shortened(text: str, most: int = _LABEL) -> str:
    """A long text without its middle."""
    text = one_line(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"


def axes_of(result: SweepResult) -> list[PlotAxis]:
    """An axis for each parameter, in the order of declaration."""
    points = [trial.point for trial in result.trials]
    return [axis(name, points) for name in parameter_names(result)]


def by_effect(result: SweepResult) -> list[PlotAxis]:
    """The axes, those with most effect first.

    The effect is the distance between medians at different positions, compared with the distance of
    points from the median at their position.
    """
    summaries = summarize(result)

    def effect(one: PlotAxis) -> tuple[bool, float]:
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
