"""Samples of several configs beside each other: how noisy each is, and which are ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp
from statistics import median, pstdev

from skipjack.report.figures.axes import MOST, FigureAxis, Scale, drawable, scale_of, text_of
from skipjack.report.figures.canvas import (
    LINE,
    MARGIN,
    Canvas,
    fitted,
    path_of,
    text_width,
)
from skipjack.report.figures.style import Kind
from skipjack.report.figures.thinning import thinned_points

MOST_GROUPS = 60
_ROW, _HALF = 34.0, 13.0
_SHAPE_FROM = 8
"""Samples from which a shape is drawn; fewer are points alone."""
_PLACES = 80
_DOTS = 300


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """The samples of a config."""

    name: str
    samples: Sequence[float]
    low: float | None = None
    """The lower end of the interval of the median."""
    high: float | None = None
    note: str = ""
    """Such as ``tie`` or ``3 set aside``, after the number of samples."""
    kind: Kind = "plain"


@dataclass(frozen=True, slots=True)
class DistributionFigure:
    """Samples as points, with a shape of their density, the median and its interval."""

    title: str
    x: FigureAxis
    groups: Sequence[SampleGroup]
    description: str = ""


def draw_distributions(figure: DistributionFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    groups = figure.groups[:MOST_GROUPS]
    if len(groups) < len(figure.groups):
        canvas.remarks.append(f"{len(groups)} of {len(figure.groups)} groups are drawn")
    names = max((text_width(fitted(one.name, 230)) for one in groups), default=0.0)
    limit = _limit(groups)
    shown = [_group_note(figure, one, limit) for one in groups]
    notes = max((text_width(note, 11) for note in shown), default=0.0)
    left = MARGIN + names + 10
    width = max(canvas.width - left - MARGIN - 8 - min(notes, 270.0), 80.0)
    values = [v for one in groups for v in (*drawable(one.samples), one.low, one.high)]
    values = [v for v in values if v is not None and v <= limit]
    scale = scale_of(figure.x, values, max(2, int(width / 90)), 0.04)
    bottom = top + _ROW * max(len(groups), 1) + 4
    for tick in scale.ticks:
        x = left + scale.place(tick.value) * width
        canvas.line(x, top, x, bottom, "grid")
        canvas.text(x, bottom + 15, tick.text, "small faint", "middle", size=11)
    for place, one in enumerate(groups):
        middle = top + _ROW * (place + 0.5) + 2
        canvas.text(left - 10, middle, one.name, "", "end", 230, middle=True)
        _draw_group(canvas, one, scale, (left, middle, width))
        canvas.text(
            left + width + 8, middle, shown[place],
            "small t-failed" if one.kind == "failed" else "small", room=270, size=11, middle=True,
        )  # fmt: skip
    canvas.path(path_of([(left, bottom), (left + width, bottom)]), "axis")
    canvas.text(left + width / 2, bottom + 15 + LINE, scale.name, "small", "middle", size=11)
    canvas.height = bottom + 2 * LINE + 8


def _limit(groups: Sequence[SampleGroup]) -> float:
    """The largest sample of the axis: a few far ones would leave no room for all others."""
    samples = [sorted(drawable(one.samples)) for one in groups]
    samples = [some for some in samples if some]
    if not samples:
        return MOST
    least, most = min(some[0] for some in samples), max(some[-1] for some in samples)
    usual = max(some[int(0.9 * (len(some) - 1))] for some in samples)
    return usual + (usual - least) / 4 if most - least > 2 * (usual - least) > 0.0 else most


def _draw_group(
    canvas: Canvas, one: SampleGroup, scale: Scale, place: tuple[float, float, float]
) -> None:
    left, middle, width = place
    known = drawable(one.samples)
    spots = sorted(left + scale.place(value) * width for value in known if value <= scale.high)
    if not spots:
        return
    shape = density(spots)
    if shape:
        most = max(height for _, height in shape)
        shape = [(min(max(x, left), left + width), height) for x, height in shape]
        upper = [(x, middle - _HALF * height / most) for x, height in shape]
        lower = [(x, middle + _HALF * height / most) for x, height in reversed(shape)]
        canvas.path(path_of([*upper, *lower], closed=True), f"f-{one.kind} soft")
    # Points above each other are moved apart, always the same way.
    at = [(x, middle + _HALF * 0.6 * _spread(number)) for number, x in enumerate(spots)]
    for number in thinned_points(at, _DOTS):
        canvas.circle(*at[number], 2.0, f"f-{one.kind} half")
    # Those beyond the axis count: `median` of positions would be of the others only.
    centre = left + scale.place(median(known)) * width
    if one.low is not None and one.high is not None and drawable((one.low, one.high)):
        low, high = (left + scale.place(value) * width for value in (one.low, one.high))
        canvas.line(low, middle, high, middle, "whisker")
    title = f"{one.name}: median of {len(known)} samples"
    box = path_of([(centre, middle - _HALF), (centre, middle + _HALF)])
    canvas.path(box, f"line thick l-{one.kind}", title)


def _spread(number: int) -> float:
    """A sequence that fills -1 to 1 evenly."""
    return 2.0 * ((number * 0.6180339887498949) % 1.0) - 1.0


def density(spots: Sequence[float]) -> list[tuple[float, float]]:
    """The density of sorted positions, as a curve; empty if there are too few or all are equal."""
    if len(spots) < _SHAPE_FROM or spots[-1] - spots[0] < 1.0:
        return []
    # At most 500 of them at even ranks: the curve is the same to the eye.
    every = max(1, ceil(len(spots) / 500))
    some = spots[::every]
    low, high = spots[len(spots) // 4], spots[-1 - len(spots) // 4]
    # Silverman's rule, with quartiles so that a far outlier does not smooth everything.
    spread = min(pstdev(some), (high - low) / 1.34) if high > low else pstdev(some)
    wide = max(0.9 * spread * len(some) ** -0.2, 0.6)
    start, end = spots[0] - 2 * wide, spots[-1] + 2 * wide
    places = [start + (end - start) * step / _PLACES for step in range(_PLACES + 1)]
    # Peaks narrower than the steps are sampled where they are.
    places = sorted({*places, *some[:: max(1, len(some) // 60)]})
    return [(x, sum(exp(-0.5 * ((x - spot) / wide) ** 2) for spot in some)) for x in places]


def _group_note(figure: DistributionFigure, one: SampleGroup, limit: float = MOST) -> str:
    known = drawable(one.samples)
    head = f"{text_of(median(known), figure.x.unit)}, n={len(known)}" if known else ""
    beyond = sum(value > limit for value in known)
    far = f"{beyond} beyond" if beyond else ""
    return ", ".join(part for part in (head, one.note, far) if part)


def describe_distributions(figure: DistributionFigure) -> str:
    """The medians of the groups."""
    some = [f"{one.name}: {_group_note(figure, one) or 'none'}." for one in figure.groups[:12]]
    left = len(figure.groups) - len(some)
    return " ".join([*some, *([f"And {left} more."] if left else [])])
