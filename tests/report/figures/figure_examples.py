"""A figure of each kind, of a given size, and with data that are hard to draw."""

from __future__ import annotations

from math import inf, nan

from skipjack.report.figures import (
    BarFigure,
    DistributionFigure,
    Figure,
    FigureAxis,
    FigureBar,
    FigureLevel,
    HeatMapFigure,
    LineFigure,
    LineSeries,
    LoopTreeFigure,
    LoopTreeNode,
    ParallelAxis,
    ParallelFigure,
    ParallelLine,
    ParetoFigure,
    ParetoPoint,
    SampleGroup,
    StackedFigure,
    StackedState,
    TimelineFigure,
    TimelineRow,
    TimelineSpan,
)

TIME = FigureAxis("time of a call (less is better)", "ns")
TRIAL = FigureAxis("trial", whole=True)
WHEN = FigureAxis("time", "time")
MARKUP = "<script>alert('1')</script> & \"x\" \x1b[31m"
ODD = (nan, inf, -inf, 1e300, -1e300, 1e-300, 0.0)


def values(count: int) -> list[float]:
    """Times in nanoseconds, which vary, always the same ones."""
    return [1e5 + 1e4 * ((7 * number) % 23) for number in range(count)]


def figures(count: int, name: str = "a name") -> dict[str, Figure]:
    """Figures with `count` marks of each kind."""
    numbers = range(count)
    return _figures(values(count), [1.79e9 + 60.0 * number for number in numbers], name)


def odd_figures() -> dict[str, Figure]:
    """Figures with values that are not finite or too large, and texts with markup."""
    return _figures([*ODD, *values(5)], [1e300, *map(float, range(10)), -1e300], MARKUP)


def failed_figures(count: int = 5) -> dict[str, Figure]:
    """Figures in which everything failed."""
    names = [f"config {number}" for number in range(count)]
    return {
        "line": LineFigure(
            "all failed", TRIAL, TIME, [LineSeries("t", range(count), [None] * count, "points")]
        ),
        "bars": BarFigure(
            "all failed",
            TIME,
            [FigureBar(one, None, note="crashed", kind="failed") for one in names],
        ),
        "distributions": DistributionFigure(
            "all failed",
            TIME,
            [SampleGroup(one, [], note="crashed", kind="failed") for one in names],
        ),
        "heat map": HeatMapFigure(
            "all failed", "a", "b", names, ["1"], {(x, 0): None for x in range(count)}
        ),
        "parallel": ParallelFigure(
            "all failed",
            [ParallelAxis("a", names)],
            [ParallelLine([x], None, names[x]) for x in range(count)],
            TIME,
        ),
    }


def _figures(ys: list[float], times: list[float], name: str) -> dict[str, Figure]:
    numbers = range(len(ys))
    labels = [f"{name} {number}" for number in numbers]
    return {
        "line": LineFigure(
            name,
            TRIAL,
            TIME,
            [
                LineSeries(name, numbers, ys, "points", "plain", texts=labels),
                LineSeries("step", numbers, ys, "step", "best", last_text=True),
                LineSeries("curve", numbers, ys, low=[y * 0.9 for y in ys], high=ys),
            ],
            [FigureLevel(name, 2e5)],
        ),
        "pareto": ParetoFigure(
            name,
            FigureAxis(name),
            TIME,
            [ParetoPoint(float(at), y, labels[at], at % 3 == 0) for at, y in enumerate(ys)],
        ),
        "bars": BarFigure(
            name, TIME, [FigureBar(labels[at], y, y * 0.9, y * 1.1) for at, y in enumerate(ys)]
        ),
        "distributions": DistributionFigure(
            name, TIME, [SampleGroup(name, ys, 1e5, 1.1e5, "tie", "tie"), SampleGroup("b", ys[:1])]
        ),
        "heat map": HeatMapFigure(
            name,
            name,
            "up",
            labels[:40],
            [name],
            {(x, 0): y for x, y in enumerate(ys[:40])},
            best=(0, 0) if ys else None,
        ),
        "parallel": ParallelFigure(
            name,
            [ParallelAxis(name, labels), ParallelAxis("b", [name])],
            [ParallelLine([at, 0], y, labels[at], at == 0) for at, y in enumerate(ys)],
            TIME,
        ),
        "stacked": StackedFigure(
            name,
            WHEN,
            FigureAxis("jobs", "count", whole=True),
            sorted(times),
            [StackedState(name, [*numbers], "good"), StackedState("b", [*numbers], "failed")],
        ),
        "timeline": TimelineFigure(
            name,
            WHEN,
            [TimelineRow(name, [TimelineSpan(at, at + 30.0, name, "good") for at in times])],
            [("good", name)],
        ),
        "loop tree": LoopTreeFigure(
            name,
            [LoopTreeNode(labels[at], min(at, 30), name, at == 1) for at in numbers][:60],
            name,
        ),
    }
