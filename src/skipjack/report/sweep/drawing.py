"""Drawing with matplotlib, which is loaded on first use; parameters as axes of plots."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from skipjack.errors import SkipjackError
from skipjack.report.numbers import metric_text
from skipjack.report.sweep.summary import metric_name
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import (
    RANGE,
    ParameterAxis,
    maximised,
    one_line,
    parameter_axes,
)

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


# Parameters as axes of plots.

_LABEL = 18


def shortened(text: str, most: int = _LABEL) -> str:
    """A long text without its middle."""
    text = one_line(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"


def axes_of(result: SweepResult) -> list[ParameterAxis]:
    """An axis for each parameter, in the order of declaration, with labels that fit a plot."""
    return [labeled(one) for one in parameter_axes(result)]


def labeled(one: ParameterAxis) -> ParameterAxis:
    """The axis with labels that fit a plot."""
    return replace(one, labels=tuple(map(_label, one.labels)))


def _label(text: str) -> str:
    first, to, last = text.partition(RANGE)
    return f"{_tidy(first)}{RANGE}{_tidy(last)}" if to else shortened(text)


def _tidy(text: str) -> str:
    return metric_text(float(text))
