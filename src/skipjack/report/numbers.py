"""Numbers for people."""

from __future__ import annotations

from math import isfinite

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def time_text(ns: float | None) -> str:
    """``120.3 µs``; a dash where there is none."""
    if ns is None or not isfinite(ns):
        return "-"
    for unit, name in _TIMES:
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns / unit < 1000 else f"{ns / unit:.0f} {name}"
    return f"{ns:.2g} ns"


def size_text(count: int) -> str:
    """``32 MiB``."""
    for unit, name in _SIZES:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def gain_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """``3.15 [3.12, 3.20]``; without an interval if it has none, a dash for what was not measured.

    None is how JSON writes what is no number.
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
