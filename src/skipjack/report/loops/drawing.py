"""Drawing several panels with matplotlib, which is loaded on first use."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from skipjack.errors import SkipjackError
from skipjack.report.numbers import metric_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BEST, QUIET = "#d9480f", "#8a8f98"
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
