"""Numbers, times and names of libraries as tables show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

from skipjack.report.escaping import escaped

if TYPE_CHECKING:
    from skipjack.app.views import Unit, Value

# Numbers as text.

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_RATES = ((1e6, "P"), (1e3, "T"), (1.0, "G"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_LAST_MOMENT = 253_402_300_799.0
"""The end of the year 9999, after which there are no dates."""


def time_text(ns: float | None) -> str:
    """``120.3 µs``; a dash if there is none."""
    if ns is None or not isfinite(ns):
        return "-"
    for unit, name in _TIMES:
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns / unit < 1000 else f"{ns / unit:.0f} {name}"
    return f"{ns:.2g} ns"


def time_unit(times_ns: Sequence[float]) -> tuple[float, str]:
    """The unit, in nanoseconds and by name, in which the least of these times is 1 or more."""
    least = min((ns for ns in times_ns if isfinite(ns)), default=1.0)
    return next(((unit, name) for unit, name in _TIMES if least >= unit), _TIMES[-1])


def rate_text(giga: float | None, unit: str) -> str:
    """``109.5 GFLOP/s``, ``633.7 TFLOP/s``, ``4.1 TB/s``; `unit` is ``GFLOP/s`` or ``GB/s``."""
    if giga is None or not isfinite(giga):
        return "-"
    factor, prefix = next((step for step in _RATES if giga >= step[0]), _RATES[-1])
    return f"{giga / factor:.1f} {prefix}{unit.removeprefix('G')}"


def size_text(count: int) -> str:
    """``32 MiB``."""
    for unit, name in _SIZES:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def gain_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """``3.15 [3.12, 3.20]``; the interval is left out if unknown, a dash stands for no value.

    JSON has None in place of numbers that are not finite.
    """
    if ratio is None or not isfinite(ratio):
        return "-"
    if low is None or high is None or not isfinite(low) or not isfinite(high):
        return _short(ratio)
    return f"{_short(ratio)} [{_short(low)}, {_short(high)}]"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def percent_text(share: float | None) -> str:
    """``97 %``."""
    return "-" if share is None or not isfinite(share) else f"{100 * share:.0f} %"


def metric_text(value: float | None, digits: int = 5) -> str:
    """``1203.4``: a number with this many significant digits, if possible without an exponent."""
    if value is None or not isfinite(value):
        return "-"
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def duration_text(seconds: float | None) -> str:
    """``4.2 s``, ``12 min 3 s``, ``2 h 5 min``; a dash if it is not known."""
    if seconds is None or not isfinite(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(seconds: float) -> datetime:
    """A point in time from seconds since 1970; those that no calendar has are its first or last."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST_MOMENT), UTC)


def number_text(value: float | None, unit: Unit = "") -> str:
    """A number with its unit: ``1.2 ms``, ``97 %``, ``3 h 5 min``; a dash for none."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "-"
    match unit:
        case "ns":
            return time_text(value)
        case "s":
            return duration_text(value)
        case "bytes":
            return size_text(round(value))
        case "share":
            return percent_text(value)
        case "ratio":
            return f"{value:.2f}" if abs(value) < 100.0 else f"{value:.0f}"
        case "time":
            return f"{moment(value):%Y-%m-%d %H:%M:%S} UTC"
        case _:
            if isinstance(value, float) and (value != int(value) or abs(value) >= 1e15):
                return metric_text(value)
            text = f"{int(value):,}"
            # Numbers that name something, such as that of a job, are written as they are typed.
            return text.replace(",", "\u202f" if unit == "count" else "")


def cell_text(value: Value, unit: Unit = "") -> str:
    """A value of a table as people read it, without control characters; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(value) if isinstance(value, str) else number_text(value, unit)


# How tables name the library that a problem is compared with, which is usually NumPy.

_NAMES = {"numpy": "NumPy", "": "NumPy"}
_SEVERAL = "library"


def library_column(vendors: Iterable[str]) -> str:
    """The heading for times of these libraries; empty names are ignored."""
    names = {vendor for vendor in vendors if vendor}
    if len(names) > 1:
        return _SEVERAL
    return library_name(names.pop() if names else "")


def library_name(vendor: str) -> str:
    """The library's usual spelling."""
    return _NAMES.get(vendor, vendor)


def library_cell(text: str, vendor: str, column: str) -> str:
    """The text, followed by the library's name if it is not in the heading."""
    return f"{text} {library_name(vendor)}" if column == _SEVERAL and vendor else text
