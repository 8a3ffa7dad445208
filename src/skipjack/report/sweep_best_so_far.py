"""Best so far: what each run measured, and the best until then, over runs and over time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from skipjack.core.trial import Status
from skipjack.report.numbers import metric_text
from skipjack.report.sweep_drawing import BEST, FAILED, QUIET, figure, scale, value_label
from skipjack.report.sweep_points import SCREEN, maximised, usable
from skipjack.sweep.result import SweepResult, SweepTrial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class History:
    """The runs in order; those that a rule refused are none."""

    runs: tuple[SweepTrial, ...]
    ends_s: tuple[float, ...]
    """When each ended, in seconds of building and running that this sitting spent."""
    best: tuple[float | None, ...]
    """Of full runs until then."""


def history(result: SweepResult) -> History:
    """What is to be drawn."""
    runs = tuple(trial for trial in result.trials if trial.status is not Status.INFEASIBLE)
    spent = (0.0 if trial.cached else trial.seconds + trial.build_seconds for trial in runs)
    better = max if maximised(result) else min
    best: list[float | None] = []
    for trial in runs:
        until = best[-1] if best else None
        if usable(trial) and trial.purpose != SCREEN and trial.value is not None:
            until = trial.value if until is None else better(until, trial.value)
        best.append(until)
    return History(runs, tuple(accumulate(spent)), tuple(best))


def draw_best_so_far(result: SweepResult) -> Figure | None:
    """None where nothing was run."""
    past = history(result)
    if not past.runs:
        return None
    timed = past.ends_s[-1] > 0.0
    drawn = figure(11.0 if timed else 7.0, 4.2)
    panels = drawn.subplots(1, 2 if timed else 1, sharey=True, squeeze=False)[0]
    _draw_panel(result, past, [float(number) for number in range(1, len(past.runs) + 1)], panels[0])
    panels[0].set_xlabel("runs")
    panels[0].set_ylabel(value_label(result))
    panels[0].set_title("best so far")
    panels[0].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    room = max(0.5, len(past.runs) / 40)
    panels[0].set_xlim(1 - room, len(past.runs) + room)
    if timed:
        unit, word = (60.0, "minutes") if past.ends_s[-1] > 180.0 else (1.0, "seconds")
        _draw_panel(result, past, [end / unit for end in past.ends_s], panels[1])
        panels[1].set_xlabel(f"{word} of building and running")
        panels[1].set_xlim(0.0, 1.04 * past.ends_s[-1] / unit)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return drawn


def _draw_panel(result: SweepResult, past: History, at: list[float], axes: Any) -> None:
    runs = list(zip(at, past.runs, strict=True))
    small = 4 if len(runs) > 100 else 6
    for short, label in ((False, "a run"), (True, "a short run")):
        some = [
            (x, trial.value)
            for x, trial in runs
            if usable(trial) and (trial.purpose == SCREEN) is short
        ]
        if some:
            axes.plot(
                *zip(*some, strict=True), "o", ms=small, color=QUIET, alpha=0.7, label=label,
                mfc="none" if short else QUIET,
            )  # fmt: skip
    known = [(x, best) for x, best in zip(at, past.best, strict=True) if best is not None]
    if known:
        axes.step(*zip(*known, strict=True), where="post", color=BEST, lw=2.2, label="best so far")
        axes.annotate(
            metric_text(known[-1][1]), known[-1], (0, 6), textcoords="offset points", ha="right",
            color=BEST, fontweight="bold",
        )  # fmt: skip
    if result.baseline_value is not None:
        axes.axhline(result.baseline_value, color="black", lw=1.0, ls="--", label="baseline")
    failed = [x for x, trial in runs if not usable(trial)]
    if failed:
        # At the lower edge, whatever the values are.
        axes.plot(
            failed, [0.02] * len(failed), "x", color=FAILED, ms=small, label="failed",
            transform=axes.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    values = [trial.value for _, trial in runs if usable(trial) and trial.value is not None]
    scale(axes, "y", values)
    if not values and result.baseline_value is None:
        axes.set_yticks([])
    axes.margins(y=0.12)
    axes.grid(alpha=0.25)
