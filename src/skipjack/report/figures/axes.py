"""Axes of figures: units, linear and logarithmic scales, ticks and their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from skipjack.app.views import Unit
from skipjack.report.numbers import moment, number_text

MOST = 1e150
"""Larger numbers are drawn as this one."""
_LEAST = 1e-150
_WIDE_RANGE = 50.0
"""Positive values with a larger ratio than this are drawn on a logarithmic axis."""
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "s": ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "s"), (1e-3, "ms")),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "share": ((0.01, "%"),),
}
_PERIODS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800),
)


text_of = number_text
"""Figures write numbers as tables do."""


@dataclass(frozen=True, slots=True)
class FigureAxis:
    """What an axis shows."""

    name: str
    """``time of a call (less is better)``; the unit is added to it."""
    unit: Unit = ""
    """The unit of the data; ticks are in a larger or smaller one where that reads better."""
    log: bool | None = None
    """None: logarithmic if all values are positive, their range is wide, and they are not whole."""
    whole: bool = False
    """Whether there is nothing between whole numbers, as with the number of a trial."""
    zero: bool = False
    """Whether a linear axis includes zero."""


def drawable(values: Iterable[float | None]) -> list[float]:
    """The finite values, with those too large to compute with made smaller."""
    return [clamped(value) for value in values if value is not None and isfinite(value)]


def clamped(value: float) -> float:
    """The value, or the largest one that is drawn."""
    return min(max(value, -MOST), MOST)


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions from 0 to 1."""

    low: float
    high: float
    log: bool
    ticks: tuple[Tick, ...]
    name: str
    """The name of the axis with the unit of its ticks."""

    def place(self, value: float) -> float:
        """The position of a value; what is outside is at the edge."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = log10(max(value, _LEAST)), log10(low), log10(high)
        share = (clamped(value) - low) / (high - low)
        return min(max(share, 0.0), 1.0)


def is_wide(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis is better."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return low > 0.0 and high / low > _WIDE_RANGE


def scale_of(
    axis: FigureAxis, values: Iterable[float | None], most_ticks: int = 6, room: float = 0.05
) -> Scale:
    """A scale for these values, with `room` as a share of the range at both ends."""
    found = drawable(values)
    log = axis.log if axis.log is not None else not axis.whole and is_wide(found)
    if log:
        found = [max(value, _LEAST) for value in found if value > 0.0]
        return _log_scale(axis, found or [1.0, 10.0], most_ticks, room)
    return _linear_scale(axis, found or [0.0, 1.0], most_ticks, room)


def _linear_scale(axis: FigureAxis, values: Sequence[float], most_ticks: int, room: float) -> Scale:
    low, high = min(values), max(values)
    if axis.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        widen = 30.0 if axis.unit == "time" else 1.0 if axis.whole or not low else abs(low) / 20
        low, high = (low - widen, high + widen) if not axis.zero else (0.0, high or 1.0)
    wide = high - low
    keeps_zero = axis.zero and low == 0.0
    low, high = (low if keeps_zero else low - room * wide), high + room * wide
    if axis.unit == "time":
        return _time_scale(axis, low, high, most_ticks)
    factor, unit = _unit_for(axis.unit, max(abs(low), abs(high)))
    step = _step((high - low) / factor, most_ticks, axis.whole)
    first, last = ceil(low / factor / step - 1e-9), floor(high / factor / step + 1e-9)
    marks = [number * step for number in range(first, last + 1)]
    texts = _texts(marks, step)
    ticks = tuple(Tick(m * factor, text) for m, text in zip(marks, texts, strict=True))
    return Scale(low, high, False, ticks, _with_unit(axis.name, unit))


def _step(wide: float, most: int, whole: bool) -> float:
    """The smallest round step with at most so many ticks."""
    rough = wide / max(most, 1)
    power = 10.0 ** floor(log10(rough))
    step = next(
        power * nice for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if power * nice >= 0.999 * rough
    )
    if not whole:
        return step
    return max(1.0, step if step == round(step) else 5.0 if step == 2.5 else step)


def _texts(marks: Sequence[float], step: float) -> list[str]:
    """Texts of ticks, all different."""
    decimals = max(0, ceil(-log10(step) - 1e-9))
    if abs(round(step, decimals) - step) > 1e-6 * step:
        decimals += 1  # 0.25
    largest = max(map(abs, marks), default=0.0)
    ways: list[Callable[[float], str]] = []
    if 1e4 <= largest < 1e15:
        factor, prefix = next(one for one in _PREFIXES if largest >= one[0])
        ways.append(lambda mark: f"{mark / factor:.4g} {prefix}" if mark else "0")
    if largest < 1e15 and decimals <= 6:
        ways.insert(0 if largest < 1e4 else 1, lambda mark: f"{mark + 0.0:.{decimals}f}")
    ways += [lambda mark, d=d: _exponent(f"{mark:.{d}g}") for d in (3, 6, 9)]  # type: ignore[misc]
    for way in ways:
        texts = [_minus_sign(way(mark)) for mark in marks]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(mark) for mark in marks]


def _minus_sign(text: str) -> str:
    if text.strip("-0.") == "":
        return "0"
    return f"\N{MINUS SIGN}{text[1:]}" if text[0] == "-" else text


def _unit_for(unit: Unit, largest: float) -> tuple[float, str]:
    units = _UNITS.get(unit, ((1.0, ""),))
    return next((one for one in units if largest >= one[0]), units[-1])


def _with_unit(name: str, unit: str) -> str:
    """``time, ms (less is better)``."""
    if not unit or not name:
        return name or unit
    head, bracket, tail = name.partition(" (")
    return f"{head}, {unit}{bracket}{tail}"


def _log_scale(axis: FigureAxis, values: Sequence[float], most_ticks: int, room: float) -> Scale:
    low, high = log10(min(values)), log10(max(values))
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    wide = high - low
    low, high = low - room * wide, high + room * wide
    # Powers of ten of the unit that people count in: a day is not a power of ten seconds.
    decades = range(floor(low), ceil(high) + 1)
    every = max(1, ceil((high - low) / most_ticks))
    factors = (1.0, 2.0, 5.0) if wide < 2.0 else (1.0, 3.0) if wide < 3.0 else (1.0,)
    marks = [
        factor * 10.0**power
        for power in decades
        if power % every == 0
        for factor in factors
        if low - 1e-9 <= power + log10(factor) <= high + 1e-9
    ]
    if len(marks) < 2:
        inner = _linear_scale(
            FigureAxis(axis.name, axis.unit), (10.0**low, 10.0**high), most_ticks, 0.0
        )
        ticks = tuple(tick for tick in inner.ticks if tick.value > 0.0)
        return Scale(10.0**low, 10.0**high, True, ticks, inner.name)
    ticks = tuple(Tick(mark, _log_text(mark, axis.unit)) for mark in marks)
    return Scale(10.0**low, 10.0**high, True, ticks, axis.name)


def _log_text(value: float, unit: Unit) -> str:
    if unit in ("ns", "s", "bytes", "share"):
        factor, name = _unit_for(unit, value * (1 + 1e-9))
        return f"{_plain(value / factor)} {name}"
    return _plain(value)


def _plain(value: float) -> str:
    if 1e4 <= value < 1e15:
        factor, prefix = next(one for one in _PREFIXES if value >= one[0] * (1 - 1e-9))
        return f"{value / factor:.3g} {prefix}"
    if 1e-4 <= value < 1e4:
        return f"{value:.4g}"
    return _exponent(f"{value:.3g}")


def _exponent(text: str) -> str:
    """``1e-7`` for ``1e-07``."""
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].strip('+')}{found[2]}", text)


def _time_scale(axis: FigureAxis, low: float, high: float, most_ticks: int) -> Scale:
    """Ticks at full minutes, hours or days of UTC."""
    least = (high - low) / max(most_ticks, 1)
    period = next((one for one in _PERIODS_S if one >= least), 0)
    period = period or 604_800 * ceil(least / 604_800)
    marks = [n * period for n in range(ceil(low / period), floor(high / period) + 1)]
    ticks, day = [], None
    for mark in marks:
        when = moment(mark)
        form = "%H:%M:%S" if period < 60 else "%H:%M"
        text = when.strftime("%Y-%m-%d" if period >= 86_400 else form)
        if period < 86_400 and day is not None and when.date() != day:
            text = when.strftime("%d %b ") + text
        day = when.date()
        ticks.append(Tick(mark, text))
    head = _with_unit(axis.name, "UTC")
    if period < 86_400 and ticks:
        head = f"{head}, from {moment(marks[0]).strftime('%Y-%m-%d')}"
    return Scale(low, high, False, tuple(ticks), head)
