"""Plots of the best so far: each run's value and the best until then, over runs and time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

from skipjack.report.numbers import metric_text
from skipjack.report.sweep.drawing import BEST, FAILED, QUIET, figure, scale, value_label
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import SCREEN, search_history, usable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DASHES = ("--", ":", "-.")


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The data for a plot of any search."""

    values: tuple[float | None, ...]
    """Values of the runs in order; None for failed runs."""
    best: tuple[float | None, ...]
    """The best value until each run."""
    value_label: str
    run: str = "run"
    """What a run is called."""
    short: frozenset[int] = frozenset()
    """Indices of runs that are too short to count as the best."""
    ends_s: tuple[float, ...] = ()
    """When each run ended, if known."""
    levels: tuple[tuple[str, float], ...] = ()
    """Levels to compare with, by name."""


def draw_best_so_far(result: SweepResult) -> Figure | None:
    """The plot of a sweep; None if nothing was run."""
    past = search_history(result)
    level = () if result.baseline_value is None else (("baseline", result.baseline_value),)
    return draw_search(
        BestSoFar(
            tuple(run.value if usable(run) else None for run in past.runs),
            past.best,
            value_label(result),
            short=frozenset(n for n, run in enumerate(past.runs) if run.purpose == SCREEN),
            ends_s=past.ends_s,
            levels=level,
        )
    )


def draw_search(search: BestSoFar) -> Figure | None:
    """Draw a search over runs, and over time if known; None if nothing was run."""
    count = len(search.values)
    if not count:
        return None
    timed = bool(search.ends_s) and search.ends_s[-1] > 0.0
    drawn = figure(11.0 if timed else 7.0, 4.2)
    panels = drawn.subplots(1, 2 if timed else 1, sharey=True, squeeze=False)[0]
    _draw_panel(search, [float(number) for number in range(1, count + 1)], panels[0])
    panels[0].set_xlabel(f"{search.run}s")
    panels[0].set_ylabel(search.value_label)
    panels[0].set_title("best so far")
    panels[0].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    room = max(0.5, count / 40)
    panels[0].set_xlim(1 - room, count + room)
    if timed:
        unit, word = (60.0, "minutes") if search.ends_s[-1] > 180.0 else (1.0, "seconds")
        _draw_panel(search, [end / unit for end in search.ends_s], panels[1])
        panels[1].set_xlabel(f"{word} of building and running")
        panels[1].set_xlim(0.0, 1.04 * search.ends_s[-1] / unit)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return drawn


def _draw_panel(search: BestSoFar, at: list[float], axes: Any) -> None:
    runs = list(zip(at, search.values, strict=True))
    small = 4 if len(runs) > 100 else 6
    for short, label in ((False, f"a {search.run}"), (True, f"a short {search.run}")):
        some = [
            (x, value)
            for place, (x, value) in enumerate(runs)
            if value is not None and (place in search.short) is short
        ]
        if some:
            axes.plot(
                *zip(*some, strict=True), "o", ms=small, color=QUIET, alpha=0.7, label=label,
                mfc="none" if short else QUIET,
            )  # fmt: skip
    known = [(x, best) for x, best in zip(at, search.best, strict=True) if best is not None]
    if known:
        axes.step(*zip(*known, strict=True), where="post", color=BEST, lw=2.2, label="best so far")
        axes.annotate(
            metric_text(known[-1][1]), known[-1], (0, 6), textcoords="offset points", ha="right",
            color=BEST, fontweight="bold",
        )  # fmt: skip
    for (name, level), dashes in zip(search.levels, cycle(_DASHES)):
        axes.axhline(level, color="black", lw=1.0, ls=dashes, label=name)
    failed = [x for x, value in runs if value is None]
    if failed:
        # At the lower edge, independent of the values.
        axes.plot(
            failed, [0.02] * len(failed), "x", color=FAILED, ms=small, label="failed",
            transform=axes.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    values = [value for _, value in runs if value is not None]
    scale(axes, "y", values)
    if not values and not search.levels:
        axes.set_yticks([])
    axes.margins(y=0.12)
    axes.grid(alpha=0.25)
