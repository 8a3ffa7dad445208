"""Drawing with matplotlib, which is loaded when something is drawn and not before."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from skipjack.errors import SkipjackError
from skipjack.report.numbers import metric_text
from skipjack.report.sweep_points import maximised
from skipjack.report.sweep_summary import metric_name
from skipjack.sweep.result import SweepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAILED, BEST, QUIET = "#b3261e", "#d9480f", "#8a8f98"
_STYLE: dict[str, Any] = {
    # Names and values are shown as they are: a dollar sign begins no formula.
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
"""Positive values that differ more than this are drawn on a logarithmic axis."""


class PlotsMissingError(SkipjackError):
    """Matplotlib is not installed."""


@contextmanager
def drawing(salt: str) -> Iterator[None]:
    """Matplotlib with our style, whatever the user's own says; the same plot has the same bytes."""
    try:
        import matplotlib
    except ImportError:
        raise PlotsMissingError(
            "plots need matplotlib, which is not installed; install skipjack[plots]"
        ) from None
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Letters that the font does not have are drawn as boxes; that is no news to the user.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        style: Any = {**_STYLE, "svg.hashsalt": salt}
        matplotlib.rcParams.update(style)
        yield


def figure(width: float, height: float) -> Figure:
    """An empty one, in inches, that belongs to nobody else."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def picture(draw: Callable[[], Figure | None], salt: str, kind: str = "svg") -> bytes | None:
    """What `draw` drew, as SVG or PNG; None if it had nothing to draw."""
    with drawing(salt):
        drawn = draw()
        if drawn is None:
            return None
        stream = io.BytesIO()
        names = ("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",)
        metadata: dict[str, Any] = dict.fromkeys(names)
        drawn.savefig(stream, format=kind, dpi=120, metadata=metadata)
        return stream.getvalue()


def good_is_bright(result: SweepResult) -> str:
    """The colours: the better, the brighter."""
    return "viridis" if maximised(result) else "viridis_r"


def value_label(result: SweepResult) -> str:
    """``samples_per_second (more is better)``."""
    return f"{metric_name(result)} ({'more' if maximised(result) else 'less'} is better)"


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """The least and the largest; a little more where they are the same."""
    finite = [value for value in values if isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if high > low:
        return low, high
    room = (abs(low) or 1.0) / 20
    return low - room, high + room


def scale(axes: Any, name: Literal["x", "y"], values: Sequence[float]) -> None:
    """Plain numbers on an axis, which is logarithmic where that shows more."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    if is_wide(values):
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    axis.set_major_formatter(lambda value, _: metric_text(value))
    axis.set_minor_formatter(lambda value, _: "")


def is_wide(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis shows more."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return low > 0.0 and high / low > _WIDE_RANGE
