"""Numbers, times and names of libraries as tables show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

# Numbers as text.

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_RATES = ((1e6, "P"), (1e3, "T"), (1.0, "G"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


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
